"""Which row groups of a Parquet file to read together, and how many rows at a time.

The footer does not say what dictionary-encoded text decodes to; the headers of the dictionary pages
tell how long their values are.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardrel.sources.slicing import BATCH_ROWS
from shardrel.sources.source import corrupt, open_binary
from shardrel.sources.thrift import ThriftError, read_struct

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}
_PAGE_HEADER = 256
# Indices have at most 4 bytes, levels and run lengths about one more.
_INDEX_BYTES = 5
# Long shared prefixes make delta-encoded text decode to more than its pages hold.
_DELTA_GROWTH = 8


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive row groups that are read together, and the rows of a batch."""

    groups: range
    batch_rows: int


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """How to read a file.

    Attributes:
        dictionaries: Leaf columns whose values may repeat so much that they are to stay dictionary-encoded.
        runs: In order, over all row groups that have rows.
    """

    dictionaries: frozenset[int]
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class _DictionaryPage:
    size: int
    values: int


_Pages = Mapping[tuple[int, int], _DictionaryPage]


def plan_reads(path: Path, metadata: Any, batch_bytes: int) -> ReadPlan:
    """Plan batches of about ``batch_bytes`` decoded bytes from the footer and the dictionary page headers.

    Raises:
        InvalidInputError: ``input.corrupt``: a dictionary page has no sound header.
    """
    pages = _dictionary_pages(path, metadata)
    dictionaries = frozenset(
        leaf
        for (group, leaf), page in pages.items()
        if _repeats(metadata.row_group(group).column(leaf), page, batch_bytes)
    )
    return ReadPlan(dictionaries, tuple(_runs(metadata, pages, dictionaries, batch_bytes)))


def _repeats(chunk: Any, page: _DictionaryPage, batch_bytes: int) -> bool:
    """Whether a chunk has nothing but dictionary indices that may stand for more than a batch.

    Where a writer gave the dictionary up, most values are plain, and a dictionary would cost memory.
    """
    plain = chunk.total_uncompressed_size - page.size > chunk.num_values * _INDEX_BYTES + 4096
    return not plain and chunk.num_values * page.size > batch_bytes


def _runs(metadata: Any, pages: _Pages, dictionaries: frozenset[int], batch_bytes: int) -> Iterator[Run]:
    """Small row groups are read together; of a large one as many rows at a time as fill a batch."""
    start, rows, size = 0, 0, 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        estimate = sum(
            _decoded_bytes(metadata.schema, group.column(leaf), leaf, pages.get((index, leaf)), dictionaries)
            for leaf in range(group.num_columns)
        )
        if rows and size + estimate > batch_bytes:
            yield Run(range(start, index), _batch_rows(rows, size, batch_bytes))
            start, rows, size = index, 0, 0
        rows, size = rows + group.num_rows, size + estimate
    if rows:
        yield Run(range(start, metadata.num_row_groups), _batch_rows(rows, size, batch_bytes))


def _batch_rows(rows: int, size: int, batch_bytes: int) -> int:
    return min(max(rows if size <= batch_bytes else rows * batch_bytes // size, 1), BATCH_ROWS)


def _decoded_bytes(
    schema: Any, chunk: Any, leaf: int, page: _DictionaryPage | None, dictionaries: frozenset[int]
) -> int:
    """Estimate of a column chunk's bytes in memory."""
    count = chunk.num_values
    if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return int(count * schema.column(leaf).length)
    if chunk.physical_type != "BYTE_ARRAY":
        # The reader refuses a type that nobody knows.
        return int(count * _WIDTHS.get(chunk.physical_type, 8))
    size = chunk.total_uncompressed_size
    if "DELTA_BYTE_ARRAY" in chunk.encodings:
        size *= _DELTA_GROWTH
    if page is not None and leaf not in dictionaries:
        size = max(size, count * page.size // max(page.values, 1))
    return int(count * 4 + size)


def _dictionary_pages(path: Path, metadata: Any) -> _Pages:
    """Of all column chunks of text or bytes, by row group and leaf column."""
    leaves = [
        leaf
        for leaf in range(metadata.num_columns)
        if metadata.schema.column(leaf).physical_type == "BYTE_ARRAY"
        and metadata.schema.column(leaf).logical_type.type in ("STRING", "NONE")
    ]
    pages = {}
    with open_binary(path) as file:
        for group in range(metadata.num_row_groups):
            for leaf in leaves:
                chunk = metadata.row_group(group).column(leaf)
                if chunk.num_values and chunk.has_dictionary_page:
                    file.seek(chunk.dictionary_page_offset)
                    pages[group, leaf] = _read_header(path, file.read(_PAGE_HEADER))
    return pages


def _read_header(path: Path, data: bytes) -> _DictionaryPage:
    try:
        header = read_struct(data)
        return _DictionaryPage(int(header[2]), int(header[7][1]))
    except (ThriftError, KeyError, TypeError, ValueError) as err:
        raise corrupt(path, "a dictionary page has no sound header") from err

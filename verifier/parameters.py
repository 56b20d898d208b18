"""How the bytes of a shard are laid out, against what the root declares of it. Pure.

Nothing here makes a shard unreadable: what differs is told beside everything else that is wrong with it. What no byte
shows (the level of the codec, the library and its version) stays the publisher's word.
Source: schemas/SPEC.md#column-encodings, https://github.com/apache/parquet-format (Encodings)
"""

from collections.abc import Collection, Iterator

from shardrel.errors import ErrorCode
from shardrel.records.release import ColumnEncoding, Compression, Serializer
from verifier.packed import is_possible
from verifier.pages import DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE
from verifier.structure import Opened, PageKinds
from verifier.tally import Spot

_CODECS = {"zstd": "ZSTD", "snappy": "SNAPPY", "gzip": "GZIP", "lz4": "LZ4", "none": "UNCOMPRESSED"}
_ENCODINGS = {"PLAIN": 0, "DELTA_BINARY_PACKED": 5, "DELTA_LENGTH_BYTE_ARRAY": 6, "BYTE_STREAM_SPLIT": 9}
# Indices into a dictionary page, under the old name and under the new one.
_BY_INDEX = frozenset((2, 8))
_DATA_PAGES = {"1.0": DATA_PAGE, "2.0": DATA_PAGE_V2}


def departures(
    opened: Opened, serializer: Serializer, compression: Compression, packed: Collection[str], subject: str
) -> Iterator[Spot]:
    """What of a shard is stored in another way than the root declares, one observation a kind.

    Args:
        opened: The shard.
        serializer, compression: Of the root.
        packed: Columns that are declared as packed and can be.
        subject: What the observations are about.
    """
    found = {
        "column chunks with another codec": _other_codec(opened, _CODECS[compression.codec]),
        "row groups of another size": _other_groups(opened, serializer.row_group_records),
        "column chunks with pages of another encoding or version": _other_pages(opened, serializer),
        "columns that are not those of serializer.columns": _other_columns(opened, serializer, packed),
        "another version of the format": int(opened.metadata.format_version != serializer.format_version),
    }
    for detail, count in found.items():
        if count:
            yield Spot(code=ErrorCode.PARQUET_PARAMETERS, subject=subject, count=count, detail=detail)


def _other_codec(opened: Opened, codec: str) -> int:
    groups = (opened.metadata.row_group(i) for i in range(opened.metadata.num_row_groups))
    names: list[str] = [group.column(i).compression for group in groups for i in range(opened.metadata.num_columns)]
    return sum(name != codec for name in names)


def _other_groups(opened: Opened, records: int) -> int:
    """All row groups are full but the last, which is empty only where it is the only one."""
    sizes: list[int] = [opened.metadata.row_group(i).num_rows for i in range(opened.metadata.num_row_groups)]
    *full, last = sizes or [0]
    return sum(size != records for size in full) + int(last > records or (last == 0 and bool(full)))


def _paths(opened: Opened) -> list[str]:
    schema = opened.metadata.schema
    return [schema.column(i).path for i in range(opened.metadata.num_columns)]


def _other_columns(opened: Opened, serializer: Serializer, packed: Collection[str]) -> int:
    """Two leaves with one dotted path share an entry."""
    leaves = _paths(opened)
    paths = list(dict.fromkeys(leaves))
    declared = serializer.columns
    if [column.path for column in declared] != paths:
        return abs(len(paths) - len(declared)) or 1
    return sum(
        not is_possible(column, packed) or (column.physical == "packed" and leaves.count(column.path) > 1)
        for column in declared
    )


def _other_pages(opened: Opened, serializer: Serializer) -> int:
    declared = {column.path: column for column in serializer.columns}
    kind, paths = _DATA_PAGES[serializer.data_page_version], _paths(opened)
    columns = [declared.get(path) for path in paths]
    wrong = 0
    for i, kinds in enumerate(opened.kinds):
        column = columns[i % len(columns)]
        wrong += column is not None and not _as_declared(kinds, column, kind)
    return wrong


def _as_declared(kinds: PageKinds, column: ColumnEncoding, data_page: int) -> bool:
    """A dictionary that grew too large is given up for good: what follows is encoded as any other column."""
    rest = list(kinds)
    if column.dictionary and rest:
        if rest.pop(0)[0] != DICTIONARY_PAGE:
            return False
        if rest and rest[0][0] == data_page and rest[0][1] in _BY_INDEX:
            rest.pop(0)
    return rest in ([], [(data_page, _ENCODINGS[column.encoding])])

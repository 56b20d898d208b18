"""Parquet sources: checked structure, then batches whose decoded size is bounded. Source: schemas/SPEC.md#sources

A text column of a few KiB may decode to GiB (one long value, repeated by a dictionary). So text with
a dictionary is read as a dictionary, cut by decoded size, and only then decoded.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shardrel.digest import Digest
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.sources.names import check_names
from shardrel.sources.parquet_layout import check_ends, check_tiling
from shardrel.sources.slicing import split_batch
from shardrel.sources.source import BATCH_BYTES, Fingerprint, changed, corrupt, stream_digest

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}
_READ_BUFFER = 1 << 20
# Long shared prefixes make delta-encoded text decode to more than its pages hold.
_DELTA_GROWTH = 8


def open_parquet(path: Path) -> "ParquetSource":
    """Open a Parquet file whose structure is sound.

    Raises:
        InvalidInputError: ``input.truncated``, ``input.corrupt``, ``schema.int96``, ``schema.duplicate-field``.
    """
    fingerprint = Fingerprint.of(path)
    check_ends(path, fingerprint.size)
    file = _open(path, None, None)
    _refuse_int96(path, file.schema)
    check_tiling(path, fingerprint.size, file.metadata)
    schema = _arrow_schema(path, file)
    check_names(path, schema)
    return ParquetSource(path=path, schema=schema, num_rows=file.metadata.num_rows, fingerprint=fingerprint,
                         metadata=file.metadata)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ParquetSource:
    """A Parquet file; see ``SourceFile``."""

    path: Path
    schema: Any
    num_rows: int
    fingerprint: Fingerprint
    metadata: Any

    @cached_property
    def digest(self) -> Digest:
        return stream_digest(self.path, self.fingerprint)

    def batches(self, target: Any = None, batch_bytes: int = BATCH_BYTES) -> Iterator[Any]:
        dictionaries = _dictionary_leaves(self.metadata)
        file = _open(self.path, self.metadata, [self.metadata.schema.column(leaf).path for leaf in dictionaries])
        rows = 0
        for run in _plan_runs(self.metadata, dictionaries, batch_bytes):
            for batch in self._read_run(file, run):
                for piece in split_batch(batch, batch_bytes):
                    rows += piece.num_rows
                    yield _in_clothes_of(piece, self.schema)
        self.fingerprint.check(self.path)
        if rows != self.num_rows:
            raise corrupt(self.path, f"its footer declares {self.num_rows} rows, its pages hold {rows}")

    def _read_run(self, file: Any, run: "_Run") -> Iterator[Any]:
        try:
            yield from file.iter_batches(batch_size=run.batch_rows, row_groups=list(run.groups))
        except (pa.ArrowException, OSError, MemoryError) as err:
            if Fingerprint.of(self.path) != self.fingerprint:
                raise changed(self.path) from err
            raise corrupt(self.path, f"pages of row groups {run.groups[0]} to {run.groups[-1]} can't be read") from err


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive row groups that are read together, and the rows of a batch."""

    groups: range
    batch_rows: int


def _plan_runs(metadata: Any, dictionaries: frozenset[int], batch_bytes: int) -> Iterator[_Run]:
    """Small row groups are read together; of a large one as many rows at a time as fill a batch."""
    start, rows, size = 0, 0, 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        estimate = _decoded_bytes(metadata.schema, group, dictionaries)
        if rows and size + estimate > batch_bytes:
            yield _Run(range(start, index), _batch_rows(rows, size, batch_bytes))
            start, rows, size = index, 0, 0
        rows, size = rows + group.num_rows, size + estimate
    if rows:
        yield _Run(range(start, metadata.num_row_groups), _batch_rows(rows, size, batch_bytes))


def _batch_rows(rows: int, size: int, batch_bytes: int) -> int:
    return max(rows if size <= batch_bytes else rows * batch_bytes // size, 1)


def _decoded_bytes(schema: Any, group: Any, dictionaries: frozenset[int]) -> int:
    """Upper estimate of the bytes of a row group in memory, text with a dictionary as indices."""
    total = 0
    for leaf in range(group.num_columns):
        chunk = group.column(leaf)
        if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY":
            total += chunk.num_values * schema.column(leaf).length
        elif chunk.physical_type != "BYTE_ARRAY":
            total += chunk.num_values * _WIDTHS[chunk.physical_type]
        elif leaf in dictionaries:
            total += chunk.num_values * 4 + chunk.total_uncompressed_size
        else:
            growth = _DELTA_GROWTH if "DELTA_BYTE_ARRAY" in chunk.encodings else 1
            total += chunk.num_values * 4 + chunk.total_uncompressed_size * growth
    return total


def _dictionary_leaves(metadata: Any) -> frozenset[int]:
    """Leaf columns of text or bytes that have dictionary pages anywhere."""
    leaves = [
        leaf
        for leaf in range(metadata.num_columns)
        if metadata.schema.column(leaf).physical_type == "BYTE_ARRAY"
        and metadata.schema.column(leaf).logical_type.type in ("STRING", "NONE")
    ]
    groups = range(metadata.num_row_groups)
    return frozenset(
        leaf for leaf in leaves if any(metadata.row_group(at).column(leaf).has_dictionary_page for at in groups)
    )


def _open(path: Path, metadata: Any, read_dictionary: list[str] | None) -> Any:
    try:
        return pq.ParquetFile(
            path, metadata=metadata, read_dictionary=read_dictionary, buffer_size=_READ_BUFFER, pre_buffer=False,
            page_checksum_verification=True,
        )  # fmt: skip
    except (pa.ArrowException, OSError, MemoryError) as err:
        raise corrupt(path, "its footer can't be read") from err


def _arrow_schema(path: Path, file: Any) -> Any:
    try:
        return file.schema_arrow
    except (pa.ArrowException, OSError) as err:
        raise InvalidInputError(
            ErrorCode.SCHEMA_UNSUPPORTED, f"{path} has a column of a type that can't be read", path=str(path)
        ) from err


def _refuse_int96(path: Path, schema: Any) -> None:
    for leaf in range(len(schema)):
        column = schema.column(leaf)
        if column.physical_type == "INT96":
            raise InvalidInputError(
                ErrorCode.SCHEMA_INT96,
                f"{path}: column {column.path} is int96, whose years readers wrap; write it as a timestamp",
                path=str(path), column=column.path,
            )  # fmt: skip


def _in_clothes_of(batch: Any, schema: Any) -> Any:
    """Decode what was read as a dictionary only to keep it small."""
    if batch.schema.types == schema.types:
        return batch
    columns = [_decoded(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _decoded(array: Any, kind: Any) -> Any:
    if array.type == kind:
        return array
    if pa.types.is_dictionary(array.type):
        decoded = array.dictionary_decode()
        return decoded if decoded.type == kind else decoded.cast(kind)
    # A cast of a slice works on all values below it; taking the rows drops the others first.
    return array.take(pa.array(np.arange(len(array)))).cast(kind)

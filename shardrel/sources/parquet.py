"""Parquet sources: checked structure, then batches whose decoded size is bounded. Source: schemas/SPEC.md#sources.

A text column of a few KiB may decode to GiB (one long value, repeated by a dictionary). Such text is
read as a dictionary, cut by decoded size, and only then decoded.
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
from shardrel.sources.indices import in_bounds
from shardrel.sources.names import check_names
from shardrel.sources.parquet_layout import check_ends, check_footer, check_tiling
from shardrel.sources.parquet_plan import Run, plan_reads
from shardrel.sources.slicing import split_batch
from shardrel.sources.source import BATCH_BYTES, Fingerprint, changed, corrupt, stream_digest

_READ_BUFFER = 1 << 20


def open_parquet(path: Path) -> "ParquetSource":
    """Open a Parquet file whose structure is sound.

    Raises:
        InvalidInputError: ``input.truncated``, ``input.corrupt``, ``schema.int96``, ``schema.duplicate-field``.
    """
    fingerprint = Fingerprint.of(path)
    check_ends(path, fingerprint.size)
    file = _open(path, None, None)
    check_footer(path, fingerprint.size, file.metadata)
    _refuse_int96(path, file.schema)
    check_tiling(path, fingerprint.size, file.metadata)
    schema = _arrow_schema(path, file)
    check_names(path, schema)
    return ParquetSource(path=path, schema=schema, num_rows=file.metadata.num_rows, fingerprint=fingerprint)


@dataclass(frozen=True, kw_only=True)
class ParquetSource:
    """A Parquet file; see ``SourceFile``. It holds no footer, so that thousands of files may be open."""

    path: Path
    schema: Any
    num_rows: int
    fingerprint: Fingerprint

    @cached_property
    def digest(self) -> Digest:
        return stream_digest(self.path, self.fingerprint)

    def batches(self, target: Any = None, batch_bytes: int = BATCH_BYTES) -> Iterator[Any]:
        self.fingerprint.check(self.path)
        metadata = _open(self.path, None, None).metadata
        plan = plan_reads(self.path, metadata, batch_bytes)
        file = _open(self.path, metadata, [metadata.schema.column(leaf).path for leaf in plan.dictionaries])
        rows = 0
        for run in plan.runs:
            for batch in self._read_run(file, run):
                if not all(in_bounds(column) for column in batch.columns):
                    raise corrupt(self.path, f"an index behind row {rows} names no entry of its dictionary")
                for piece in split_batch(batch, batch_bytes):
                    rows += piece.num_rows
                    yield _in_clothes_of(piece, self.schema)
        self.fingerprint.check(self.path)
        if rows != self.num_rows:
            raise corrupt(self.path, f"its footer declares {self.num_rows} rows, its pages hold {rows}")

    def _read_run(self, file: Any, run: Run) -> Iterator[Any]:
        try:
            yield from file.iter_batches(batch_size=run.batch_rows, row_groups=list(run.groups))
        except (pa.ArrowException, OSError, MemoryError) as err:
            if Fingerprint.of(self.path) != self.fingerprint:
                raise changed(self.path) from err
            raise corrupt(self.path, f"pages of row groups {run.groups[0]} to {run.groups[-1]} can't be read") from err


def _open(path: Path, metadata: Any, read_dictionary: list[str] | None) -> Any:
    try:
        return pq.ParquetFile(
            path, metadata=metadata, read_dictionary=read_dictionary, buffer_size=_READ_BUFFER, pre_buffer=False,
            page_checksum_verification=True,
        )  # fmt: skip
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as err:
        raise corrupt(path, "its footer can't be read") from err


def _arrow_schema(path: Path, file: Any) -> Any:
    try:
        return file.schema_arrow
    except (pa.ArrowException, OSError, UnicodeDecodeError) as err:
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

"""JSON Lines, plain or compressed: one object a line, read strictly, twice. Source: schemas/SPEC.md#sources.

The first pass infers the types over all lines, the second yields batches of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from shardrel.digest import Digest
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.sources.compressed import read_chunks
from shardrel.sources.json_line import at_row, decode_line
from shardrel.sources.json_shape import Shape
from shardrel.sources.slicing import BATCH_ROWS
from shardrel.sources.source import BATCH_BYTES, Fingerprint, changed, stream_digest

MAX_LINE_BYTES = 256 * 1024 * 1024
# A list of small numbers takes about eight times its text as Python objects.
_OBJECT_GROWTH = 8


def open_jsonl(path: Path, compression: str | None) -> "JsonlSource":
    """Infer the schema of a file of JSON Lines by reading it once.

    Raises:
        InvalidInputError: ``input.json-line``, ``input.invalid-utf8``, ``schema.conflict``, ``input.truncated``,
            ``input.corrupt``; with the row where one is at fault.
    """
    fingerprint = Fingerprint.of(path)
    shape, rows = Shape(), 0
    for line in _read_lines(path, compression):
        record = decode_line(path, rows, line)
        try:
            shape.observe_fields(record)
        except InvalidInputError as err:
            raise at_row(path, rows, err) from err
        rows += 1
    fingerprint.check(path)
    return JsonlSource(path=path, compression=compression, shape=shape, num_rows=rows, fingerprint=fingerprint)


def common_schema(files: "Sequence[JsonlSource]") -> Any:
    """One ``pa.Schema`` for several files, as if their lines were those of one.

    Raises:
        InvalidInputError: ``schema.conflict``, naming the first file that does not fit.
    """
    whole = Shape()
    for file in files:
        try:
            whole.merge(file.shape)
            schema = pa.schema(whole.arrow_fields())
        except InvalidInputError as err:
            raise InvalidInputError(
                err.code, f"{file.path}: {err.message}, taken together with the files before it",
                **{**err.context, "path": str(file.path)},
            ) from err  # fmt: skip
    return schema


@dataclass(frozen=True, kw_only=True)
class JsonlSource:
    """A file of JSON Lines; see ``SourceFile``."""

    path: Path
    compression: str | None
    shape: Shape
    num_rows: int
    fingerprint: Fingerprint

    @cached_property
    def schema(self) -> Any:
        try:
            return pa.schema(self.shape.arrow_fields())
        except InvalidInputError as err:
            raise InvalidInputError(
                err.code, f"{self.path}: {err.message}", **{**err.context, "path": str(self.path)}
            ) from err

    @cached_property
    def digest(self) -> Digest:
        return stream_digest(self.path, self.fingerprint)

    def batches(self, target: Any = None, batch_bytes: int = BATCH_BYTES) -> Iterator[Any]:
        schema = self.schema if target is None else target
        self.fingerprint.check(self.path)
        records: list[Any] = []
        held = rows = 0
        for line in _read_lines(self.path, self.compression):
            records.append(decode_line(self.path, rows, line))
            rows += 1
            held += len(line)
            if held >= batch_bytes // _OBJECT_GROWTH or len(records) == BATCH_ROWS:
                yield self._batch(records, schema)
                records, held = [], 0
        if records:
            yield self._batch(records, schema)
        self.fingerprint.check(self.path)
        if rows != self.num_rows:
            raise changed(self.path)

    def _batch(self, records: list[Any], schema: Any) -> Any:
        if not len(schema):
            # Arrow has no other way to count the rows of a table without columns.
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(records), pa.struct([])))
        try:
            return pa.RecordBatch.from_struct_array(pa.array(records, pa.struct(list(schema))))
        except (pa.ArrowException, TypeError, OverflowError) as err:
            # The first pass saw that every value fits.
            raise changed(self.path) from err


def _read_lines(path: Path, compression: str | None) -> Iterator[bytes]:
    """Lines without their newline; the last one may lack it."""
    pieces: list[bytes] = []
    held = 0
    for chunk in read_chunks(path, compression):
        head, *rest = chunk.split(b"\n")
        pieces.append(head)
        held += len(head)
        if held > MAX_LINE_BYTES:
            raise InvalidInputError(
                ErrorCode.INPUT_JSON, f"{path} has a line of more than {MAX_LINE_BYTES} bytes", path=str(path)
            )
        if rest:
            yield b"".join(pieces)
            yield from rest[:-1]
            pieces, held = [rest[-1]], len(rest[-1])
    if held:
        yield b"".join(pieces)

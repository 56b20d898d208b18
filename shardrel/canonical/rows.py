"""Canonical encodings of records and their content digests, vectorised. Source: schemas/SPEC.md#record-encoding

The cost is one copy of the values and one SHA-256 over them: lists of numbers and texts are joined
from the buffers they lie in, and neighbouring numbers are one column of the join.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardrel.canonical import parts
from shardrel.canonical.cells import cell_parts
from shardrel.canonical.parts import Part, constant, join
from shardrel.canonical.plain import is_plain, offsets_of, plain
from shardrel.canonical.schema import content_type, physical_schema, record_schema
from shardrel.canonical.sha import Bytes32
from shardrel.canonical.slices import SLICE_BYTES, sliced
from shardrel.digest import Domain
from shardrel.errors import ErrorCode, InternalError, InvalidInputError
from shardrel.records.schema import RecordSchema

_FEW_ROWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """Canonical encodings of n records.

    Attributes:
        rows: ``pa.Array`` of n binary (large_binary from 2 GiB on) values.
    """

    rows: Any

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Shape (n,): bytes of each encoding."""
        return np.diff(offsets_of(self.rows)).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentDigests:
    """What identifies n records.

    Attributes:
        digests: Shape (n, 32), uint8: ``logicalContentDigest`` of each.
        lengths: Shape (n,): bytes of each encoding, content type included.
    """

    digests: Bytes32
    lengths: npt.NDArray[np.int64]

    @property
    def logical_bytes(self) -> int:
        """Sum of the lengths."""
        return int(self.lengths.sum())


class RowEncoder:
    """Encodes batches of one record schema. Holds no rows; safe to share among threads."""

    def __init__(self, schema: RecordSchema) -> None:
        self.schema = schema
        self.content_type = content_type(schema)
        physical = physical_schema(schema)
        self._accepted = {self.content_type, content_type(record_schema(physical))}
        self._known = physical

    def encode(self, batch: Any) -> Encoded:
        """Encode all rows of a batch at once.

        Args:
            batch: ``pa.RecordBatch`` or ``pa.Table`` whose columns are the schema's, in its order,
                in any clothing or in their physical types.

        Raises:
            InvalidInputError: ``schema.conflict`` for other columns; ``input.invalid-utf8``,
                ``input.null-not-allowed`` or ``input.invalid`` with ``column`` and ``row``.

        Source: schemas/SPEC.md#record-encoding
        """
        batches = _batches(batch)
        rows = [join(self._parts_at(part, b"", first), part.num_rows) for first, part in batches]
        if not rows:
            return Encoded(rows=pa.array([], pa.binary()))
        if any(pa.types.is_large_binary(part.type) for part in rows):
            rows = [part.cast(pa.large_binary()) for part in rows]
        return Encoded(rows=rows[0] if len(rows) == 1 else pa.concat_arrays(rows))

    def content_digests(self, batch: Any, *, slice_bytes: int = SLICE_BYTES) -> ContentDigests:
        """Content digests of all rows, in slices of about ``slice_bytes`` of encodings.

        Args:
            batch: As for :meth:`encode`.
            slice_bytes: Bound of the encodings that are held at a time; one row is never cut.

        Raises:
            InvalidInputError: As :meth:`encode`; ``row`` counts from the first row of ``batch``.

        Source: schemas/SPEC.md#record-encoding
        """
        digests, lengths, at = [np.empty((0, 32), np.uint8)], [np.empty(0, np.int64)], 0
        for _, part in _batches(batch):
            for piece in sliced(part, slice_bytes):
                found, sizes = parts.digests(self._parts_at(piece, Domain.RECORD.value, at), piece.num_rows)
                digests.append(found)
                lengths.append(sizes - len(Domain.RECORD.value))
                at += piece.num_rows
        if len(digests) == 2:  # the usual case, without a copy
            return ContentDigests(digests=digests[1], lengths=lengths[1])
        return ContentDigests(digests=np.concatenate(digests), lengths=np.concatenate(lengths))

    def _parts_at(self, batch: Any, prefix: bytes, first: int) -> list[Part]:
        self._check(batch.schema)
        try:
            return self._parts(batch, prefix)
        except InvalidInputError as err:
            raise self._located(batch, first) from err

    def _located(self, batch: Any, first: int) -> InvalidInputError:
        """What is wrong with the first row that is refused, with its number."""
        row = self._bad_row(batch)
        try:
            self._parts(batch.slice(row, 1), b"")
        except InvalidInputError as err:
            where = first + row
            return InvalidInputError(err.code, f"row {where}: {err.message}", **{**err.context, "row": where})
        raise InternalError(ErrorCode.INTERNAL, "rows were refused together and not one by one")

    def _parts(self, batch: Any, prefix: bytes) -> list[Part]:
        found: list[Part] = [constant(prefix + self.content_type, batch.num_rows)]
        for field, column in zip(self.schema.fields, batch.columns, strict=True):
            found += cell_parts(plain(column), field, field.name)
        return found

    def _bad_row(self, batch: Any) -> int:
        """The first row that is refused, by halving: rows before ``low`` are fine."""
        low, high = 0, batch.num_rows
        while high - low > 1:
            middle = (low + high) // 2
            try:
                self._parts(batch.slice(low, middle - low), b"")
                low = middle
            except InvalidInputError:
                high = middle
        return low

    def _check(self, schema: Any) -> None:
        known = self._known
        if schema is known or schema.equals(known):
            return
        if content_type(record_schema(schema)) not in self._accepted:
            raise InvalidInputError(ErrorCode.SCHEMA_CONFLICT, "the rows do not have the columns of the record schema")
        self._known = schema


def content_digests(encoder: RowEncoder | RecordSchema, table: Any) -> ContentDigests:
    """Content digests of the rows of a ``pa.Table`` or ``pa.RecordBatch``; see :meth:`RowEncoder.content_digests`."""
    if isinstance(encoder, RecordSchema):
        encoder = RowEncoder(encoder)
    return encoder.content_digests(table)


def _batches(rows: Any) -> Iterator[tuple[int, Any]]:
    """Record batches and the number of rows before each; many small chunks are made into one first."""
    if isinstance(rows, pa.RecordBatch):
        batches = [rows] if rows.num_rows else []
    else:
        batches = [batch for batch in _fewer_chunks(rows).to_batches() if batch.num_rows]
    first = 0
    for batch in batches:
        yield first, batch
        first += batch.num_rows


def _fewer_chunks(table: Any) -> Any:
    chunks = max((column.num_chunks for column in table.columns), default=1)
    if chunks == 1 or table.num_rows >= chunks * _FEW_ROWS or table.nbytes > SLICE_BYTES:
        return table
    # Other clothes stay as they are: Arrow cannot join all of them, and joins float16 dictionaries wrongly.
    return table.combine_chunks() if all(is_plain(field.type) for field in table.schema) else table

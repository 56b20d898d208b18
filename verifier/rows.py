"""The verifier's own row encoding, written from the SPEC alone. Source: schemas/SPEC.md#record-encoding"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shardrel.canonical.sha import Bytes32
from shardrel.digest import Domain
from shardrel.errors import InvalidInputError
from shardrel.records import schema as rs
from verifier.cells import cell
from verifier.layout import weight
from verifier.pieces import Piece, constant, digests, weave
from verifier.schema import content_type

SLICE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ContentDigests:
    """Raw content digests of n records, shape (n, 32), and the bytes of their canonical encodings."""

    digests: Bytes32
    logical_bytes: int


def content_digests(schema: rs.RecordSchema, columns: Any) -> ContentDigests:
    """Content digests of the records of a table or batch whose columns are those of ``schema``, in order.

    Encodes at most about 64 MiB at a time.

    Raises:
        InvalidInputError: ``input.invalid-utf8``, ``input.null-not-allowed``, ``input.invalid`` (digits beyond the
            precision, a record beyond 2 GiB), with the ``row`` in the context.
    """
    prefix = Domain.RECORD.value + content_type(schema)
    parts, total, row = [np.empty((0, 32), np.uint8)], 0, 0
    for batch in _slices(columns):
        found, size = _digests_at(schema, batch, prefix, row)
        parts.append(found)
        total += size - batch.num_rows * len(Domain.RECORD.value)
        row += batch.num_rows
    return ContentDigests(parts[1] if len(parts) == 2 else np.concatenate(parts), total)


def encode(schema: rs.RecordSchema, batch: pa.RecordBatch) -> Any:
    """Canonical encodings of the records of one batch: a binary array, contentType first."""
    return weave(batch.num_rows, _pieces(schema, batch, content_type(schema)))


def _pieces(schema: rs.RecordSchema, batch: pa.RecordBatch, prefix: bytes) -> list[Piece]:
    """``prefix`` and the cells of each row; the caller bounds the batch.

    Raises:
        InvalidInputError: ``input.invalid-utf8``; ``input.invalid`` beyond 2 GiB.
    """
    pieces: list[Piece] = [constant(prefix)]
    for field, values in zip(schema.fields, batch.columns, strict=True):
        pieces += cell(field, values, None)
    return pieces


def _digests_at(schema: rs.RecordSchema, batch: pa.RecordBatch, prefix: bytes, first: int) -> tuple[Bytes32, int]:
    try:
        return digests(batch.num_rows, _pieces(schema, batch, prefix))
    except InvalidInputError as err:
        row = first + _first_bad(schema, batch, prefix)
        raise InvalidInputError(err.code, err.message, row=row) from err


def _first_bad(schema: rs.RecordSchema, batch: pa.RecordBatch, prefix: bytes) -> int:
    """Row of the first record that cannot be encoded, by halving."""
    low, high = 0, batch.num_rows
    while high - low > 1:
        middle = (low + high) // 2
        try:
            weave(middle - low, _pieces(schema, batch.slice(low, middle - low), prefix))
            low = middle
        except InvalidInputError:
            high = middle
    return low


def _slices(columns: Any) -> Iterator[pa.RecordBatch]:
    batches = columns.to_batches() if isinstance(columns, pa.Table) else [columns]
    for batch in batches:
        yield from _halved(batch)


def _halved(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows > 1 and batch.num_rows * 48 + sum(weight(column) for column in batch.columns) > SLICE_BYTES:
        middle = batch.num_rows // 2
        yield from _halved(batch.slice(0, middle))
        yield from _halved(batch.slice(middle))
    elif batch.num_rows:
        yield batch

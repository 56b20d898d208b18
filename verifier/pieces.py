"""Pieces: byte columns that are laid out row by row. Source: schemas/SPEC.md#record-encoding

An encoding is built as columns of pieces, one value (or none) a row, and then woven: pieces of one width that
follow each other are written into one byte matrix, and what is left is joined row by row. Where only digests are asked
for and there are lanes, rows are hashed out of their pieces instead.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.canonical.lanes import MAX_HEAD, Column
from shardrel.canonical.sha import Bytes32, fixed_rows, sha256_columns, sha256_rows
from shardrel.errors import ErrorCode, InvalidInputError

Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

_NOTHING = pa.scalar(b"", pa.binary())
MAX_WOVEN_BYTES = 2**31 - 1
# Longer values are moved faster one by one than as part of a matrix.
_EVEN = 256


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same number of bytes in every row that has the piece.

    Attributes:
        values: Shape (n, width), or (width,) for a constant.
        present: Rows that have it; None means all.
    """

    values: Bytes
    present: Mask | None

    @property
    def width(self) -> int:
        return int(self.values.shape[-1])


@dataclass(frozen=True, slots=True)
class Varying:
    """A binary array; a null is a row without the piece."""

    values: Any


Piece = Fixed | Varying


def constant(data: bytes, present: Mask | None = None) -> Fixed:
    """The same bytes in every row."""
    return Fixed(np.frombuffer(data, np.uint8), present)


def numbers(values: npt.NDArray[Any], present: Mask | None) -> Fixed:
    """A little-endian number a row."""
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return Fixed(little.view(np.uint8).reshape(len(little), little.dtype.itemsize), present)


def slices(offsets: npt.NDArray[Any], data: Any, present: Mask | None) -> Varying:
    """Row i is ``data[offsets[i]:offsets[i + 1]]``; nothing is copied."""
    check_bound(int(offsets[-1]))
    validity = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))
    narrow = np.ascontiguousarray(offsets, np.int32)
    buffers = [validity, pa.py_buffer(narrow), pa.py_buffer(data)]
    return Varying(pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers))


def check_bound(size: int) -> None:
    """Encodings of one batch stay below 2 GiB; callers slice by bytes, so only one huge record gets here.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    if size > MAX_WOVEN_BYTES:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "a batch of records has more than 2 GiB", size=size)


def digests(count: int, pieces: list[Piece]) -> tuple[Bytes32, int]:
    """SHA-256 of each of ``count`` rows, its pieces one after another: shape (count, 32); and the bytes of all."""
    found = sha256_columns(lambda: list(_as_columns(pieces)), count)
    if found is not None:
        check_bound(size := int(found[1].sum()))
        return found[0], size
    rows = weave(count, pieces)
    return sha256_rows(rows), data_bytes(rows)


def _as_columns(pieces: list[Piece]) -> Iterator[Column]:
    """The pieces; a short constant of every row is the head of the one behind it, if that is in every row too."""
    head = b""
    for piece, after in zip(pieces, [*pieces[1:], None], strict=True):
        short = isinstance(piece, Fixed) and piece.values.ndim == 1 and len(head) + piece.width <= MAX_HEAD
        if short and after is not None and _everywhere(piece) and _everywhere(after):
            head += piece.values.tobytes()
        else:
            yield _as_column(piece, head)
            head = b""


def _everywhere(piece: Piece) -> bool:
    return piece.present is None if isinstance(piece, Fixed) else not piece.values.null_count


def _as_column(piece: Piece, head: bytes) -> Column:
    present = None
    if isinstance(piece, Fixed):
        if piece.present is not None:
            present = np.ascontiguousarray(piece.present)
        stride = piece.width if piece.values.ndim == 2 else 0
        data = np.ascontiguousarray(piece.values).reshape(-1)
        return Column(data=data, stride=stride, width=piece.width, present=present, head=head)
    values = piece.values
    if values.null_count:
        present = np.ascontiguousarray(values.is_valid().to_numpy(zero_copy_only=False))
    _, borders, data = values.buffers()
    offsets = np.frombuffer(borders, np.int32, len(values) + 1, values.offset * 4)
    return Column(data=np.frombuffer(data or b"", np.uint8), offsets=offsets, present=present, head=head)


def weave(count: int, pieces: list[Piece]) -> Any:
    """One binary array of ``count`` rows: each row's pieces one after another.

    Between the first and the last offset the data buffer has no gaps.
    """
    columns = [_column(count, group) for group in _groups([_even(piece) for piece in pieces])]
    if not columns:
        return fixed_rows(np.zeros((count, 0), np.uint8))
    check_bound(sum(data_bytes(column) for column in columns))
    if len(columns) == 1 and not columns[0].null_count:
        return columns[0]
    return pc.binary_join_element_wise(*columns, _NOTHING, null_handling="replace", null_replacement="")


def data_bytes(column: Any) -> int:
    """Bytes of the values of a binary array."""
    if not len(column):
        return 0
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
    return int(offsets[-1]) - int(offsets[0])


def _even(piece: Piece) -> Piece:
    """Values that all have one length, as ids often do, are a fixed piece; nothing is copied."""
    if isinstance(piece, Fixed) or piece.values.null_count or not len(piece.values):
        return piece
    values = piece.values
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)
    width = int(offsets[1] - offsets[0])
    if width > _EVEN or int(offsets[-1] - offsets[0]) != width * len(values) or (np.diff(offsets) != width).any():
        return piece
    data = values.buffers()[2]
    if not width or data is None:
        return Fixed(np.empty((len(values), 0), np.uint8), None)
    return Fixed(np.frombuffer(data, np.uint8, width * len(values), int(offsets[0])).reshape(-1, width), None)


def _groups(pieces: list[Piece]) -> list[list[Piece]]:
    """Neighbouring fixed pieces together, each varying piece alone."""
    groups: list[list[Piece]] = []
    for piece in pieces:
        if isinstance(piece, Fixed) and groups and isinstance(groups[-1][0], Fixed):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _column(count: int, group: list[Piece]) -> Any:
    first = group[0]
    if isinstance(first, Varying):
        return first.values
    fixed = [piece for piece in group if isinstance(piece, Fixed)]
    matrix = _matrix(count, fixed)
    if all(piece.present is None for piece in fixed):
        return fixed_rows(matrix)
    return _without_absent(matrix, fixed)


def _matrix(count: int, fixed: list[Fixed]) -> Bytes:
    widths = [piece.width for piece in fixed]
    total = sum(widths)
    check_bound(count * total)
    # All constants at once, then each column of values as whole items: many times as fast as byte by byte.
    matrix = np.tile(_template(fixed, total), (count, 1))
    if not count:
        return matrix
    at = 0
    for piece, width in zip(fixed, widths, strict=True):
        if piece.values.ndim == 2 and width:
            item = np.dtype(f"V{width}")
            column = np.ndarray((count,), item, matrix, at, (total,))
            column[:] = np.ascontiguousarray(piece.values).view(item).ravel()
        at += width
    return matrix


def _template(fixed: list[Fixed], total: int) -> Bytes:
    row = np.zeros(total, np.uint8)
    at = 0
    for piece in fixed:
        if piece.values.ndim == 1:
            row[at : at + piece.width] = piece.values
        at += piece.width
    return row


def _without_absent(matrix: Bytes, fixed: list[Fixed]) -> Any:
    count = len(matrix)
    keep = np.ones(matrix.shape, bool)
    lengths = np.full(count, matrix.shape[1], np.int64)
    at = 0
    for piece in fixed:
        if piece.present is not None:
            keep[:, at : at + piece.width] = piece.present[:, None]
            lengths -= np.where(piece.present, 0, piece.width)
        at += piece.width
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(matrix[keep])])

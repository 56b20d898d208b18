"""Parts of row encodings: columns of bytes that stand next to each other in every row, and their joining."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.canonical.lanes import MAX_HEAD, Column
from shardrel.canonical.sha import Bytes32, Lengths, fixed_rows, sha256_columns, sha256_rows

_MAX32 = 2**31 - 1
# Longer values are moved faster one by one than as part of a matrix.
_EVEN = 256

Offsets = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """The same number of bytes in every row.

    Attributes:
        column: Shape (n,), any dtype of that item size; a broadcast scalar where rows are equal.
    """

    column: npt.NDArray[Any]

    @property
    def total(self) -> int:
        """Bytes of all rows."""
        return len(self.column) * self.column.dtype.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Varying:
    """Another number of bytes in each row: row i is ``data[offsets[i]:offsets[i + 1]]``."""

    offsets: Offsets
    data: Any

    @property
    def total(self) -> int:
        """Bytes of all rows."""
        return int(self.offsets[-1] - self.offsets[0])


Part = Fixed | Varying


def constant(value: bytes, rows: int) -> Fixed:
    """The same bytes in every row."""
    return Fixed(column=np.broadcast_to(np.frombuffer(value, f"V{len(value)}"), (rows,)))


def integers(values: npt.NDArray[Any]) -> Fixed:
    """``u64`` of each value."""
    return Fixed(column=values.astype("<u8"))


def strings(offsets: Offsets, data: Any) -> Part:
    """The bytes of each row; values that all have one length, as ids often do, are a fixed part, and nothing is copied.

    Args:
        offsets: Shape (n + 1,).
        data: ``pa.Buffer`` that they count in.
    """
    rows, size = len(offsets) - 1, int(offsets[-1] - offsets[0])
    width = size // rows if rows else 0
    if not 0 < width <= _EVEN or size != width * rows or (np.diff(offsets) != width).any():
        return Varying(offsets=offsets, data=data)
    return Fixed(column=np.frombuffer(data, f"V{width}", rows, int(offsets[0])))


def matrix(columns: Sequence[Fixed], rows: int) -> npt.NDArray[np.uint8]:
    """Shape (n, width): fixed columns side by side, contiguous."""
    if len(columns) == 1 and columns[0].column.flags.c_contiguous:
        packed = columns[0].column
    else:
        dtype = np.dtype([(f"f{i}", part.column.dtype) for i, part in enumerate(columns)])
        packed = np.empty(rows, dtype)
        for i, part in enumerate(columns):
            packed[f"f{i}"] = part.column
    return packed.view(np.uint8).reshape(rows, packed.dtype.itemsize)


def expand(parts: Sequence[Part], valid: npt.NDArray[np.bool_]) -> list[Part]:
    """Parts of the valid rows alone as parts of all rows, with nothing where a row is not valid."""
    before = np.zeros(len(valid) + 1, np.int64)
    np.cumsum(valid, out=before[1:])
    rows = int(before[-1])
    spread: list[Part] = []
    for part in coalesce(parts, rows):
        if isinstance(part, Fixed):
            width = part.column.dtype.itemsize
            spread.append(Varying(offsets=before * width, data=pa.py_buffer(part.column.view(np.uint8))))
        else:
            spread.append(Varying(offsets=part.offsets[before], data=part.data))
    return spread


def coalesce(parts: Sequence[Part], rows: int) -> list[Part]:
    """Neighbouring fixed parts as one, so that a join has few columns to walk."""
    merged: list[Part] = []
    run: list[Fixed] = []
    for part in parts:
        if isinstance(part, Fixed):
            run.append(part)
            continue
        if run:
            merged.append(_merged(run, rows))
            run = []
        merged.append(part)
    if run:
        merged.append(_merged(run, rows))
    return merged


def digests(parts: Sequence[Part], rows: int) -> tuple[Bytes32, Lengths]:
    """SHA-256 of each row, its parts one after another, shape (n, 32), and the bytes of each, shape (n,)."""
    found = None
    if sum(part.total for part in parts) <= _MAX32:
        found = sha256_columns(lambda: _as_columns(parts), rows)
    if found is not None:
        return found
    joined = join(parts, rows)
    width = np.int64 if pa.types.is_large_binary(joined.type) else np.int32
    borders = np.frombuffer(joined.buffers()[1], width, rows + 1, joined.offset * np.dtype(width).itemsize)
    return sha256_rows(joined), np.diff(borders).astype(np.int64)


def join(parts: Sequence[Part], rows: int) -> Any:
    """The rows' bytes: parts one after another.

    Returns:
        ``pa.Array`` of ``rows`` binary values (large_binary from 2 GiB on), no nulls; one data buffer.
    """
    large = sum(part.total for part in parts) > _MAX32
    columns = [_binary(part, rows, large=large) for part in coalesce(parts, rows)]
    if len(columns) == 1:
        return columns[0]
    kind = pa.large_binary() if large else pa.binary()
    return pc.binary_join_element_wise(*columns, pa.scalar(b"", kind))


def _merged(run: list[Fixed], rows: int) -> Fixed:
    packed = matrix(run, rows)
    width = packed.shape[1]
    return Fixed(column=packed.reshape(-1).view(f"V{width}") if rows else np.empty(0, f"V{width}"))


def _as_columns(parts: Sequence[Part]) -> list[Column]:
    """The parts; a short constant is the head of the part behind it."""
    columns: list[Column] = []
    head = b""
    for number, part in enumerate(parts, start=1):
        if isinstance(part, Fixed) and number < len(parts) and _short_constant(part, MAX_HEAD - len(head)):
            head += part.column[0].tobytes()
        else:
            columns.append(_as_column(part, head))
            head = b""
    return columns


def _short_constant(part: Fixed, most: int) -> bool:
    return not part.column.strides[0] and len(part.column) > 0 and part.column.dtype.itemsize <= most


def _as_column(part: Part, head: bytes) -> Column:
    if isinstance(part, Varying):
        # From the first byte on: where it lies may be more than 32 bits can count.
        first, data = int(part.offsets[0]), np.empty(0, np.uint8)
        if part.data:
            data = np.frombuffer(part.data, np.uint8)[first : first + part.total]
        return Column(data=data, offsets=(part.offsets - first).astype(np.int32, copy=False), head=head)
    width, same = part.column.dtype.itemsize, not part.column.strides[0]
    items = np.ascontiguousarray(part.column[:1] if same else part.column)
    return Column(data=items.view(np.uint8).reshape(-1), stride=0 if same else width, width=width, head=head)


def _binary(part: Part, rows: int, *, large: bool) -> Any:
    if isinstance(part, Fixed):
        packed = fixed_rows(part.column.view(np.uint8).reshape(rows, part.column.dtype.itemsize))
        return packed.cast(pa.large_binary()) if large else packed
    first = int(part.offsets[0])
    offsets = part.offsets - first if first else part.offsets
    offsets = np.ascontiguousarray(offsets, np.int64 if large else np.int32)
    kind = pa.large_binary() if large else pa.binary()
    data = part.data.slice(first, part.total)
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(offsets), data])

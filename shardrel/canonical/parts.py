"""Parts of row encodings: columns of bytes that stand next to each other in every row, and their joining."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.canonical.sha import fixed_rows

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

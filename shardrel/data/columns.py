"""Rows taken from several shards at once, as one piece of memory a column. Source: schemas/SPEC.md#decoded-columns."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardrel.data.forms import Form, stored_type
from shardrel.errors import ErrorCode, InvalidInputError

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
V = TypeVar("V")

# A view holds up to twelve bytes itself, and counts into its buffer with 31 bits.
_INLINE = 12
_PIECE = 1 << 30
_MAX32 = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredColumn:
    """A column of one shard, as its decoded file holds it.

    Attributes:
        form: Its form; ``arrow`` where a value doesn't fit the form of its type.
        array: The Arrow array over the file's own memory.
        starts: First byte of each row and the end of the last; None for fixed and arrow forms.
        data: The bytes of the rows; None for the arrow form.
        valid: False where a row is null; None without nulls.
    """

    form: Form
    array: Any
    starts: Ints | None
    data: Bytes | None
    valid: npt.NDArray[np.bool_] | None

    def spans(self, rows: Ints) -> tuple[Ints, Ints]:
        """First byte and length of rows."""
        if self.starts is None:
            return rows * self.form.width, np.full(len(rows), self.form.width, np.int64)
        first = self.starts[rows]
        return first, self.starts[rows + 1] - first

    def logical(self) -> Any:
        """The whole column in its logical Arrow type."""
        if self.form.kind == "arrow":
            return self.array
        rows = np.arange(len(self.array), dtype=np.int64)
        return gather([Taken(column=self, rows=rows, at=rows)], len(rows)).arrow()


def stored_column(array: Any, form: Form) -> StoredColumn:
    """A column of a decoded file, without copying it."""
    if form.kind == "arrow" or array.type != stored_type(form):
        return StoredColumn(form=form.as_arrow(), array=array, starts=None, data=None, valid=None)
    buffers = array.buffers()
    data = np.asarray(_Memory(buffers[-1], buffers[-1].size)) if buffers[-1] else np.zeros(0, np.uint8)
    starts = None
    if form.kind == "ragged":
        starts = np.frombuffer(buffers[1], np.int64) if len(array) else np.zeros(1, np.int64)
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    return StoredColumn(form=form, array=array, starts=starts, data=data, valid=valid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Rows of one shard, and the places that they take in the result."""

    column: StoredColumn
    rows: Ints
    at: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Rows of one column.

    Attributes:
        form: As in :class:`StoredColumn`.
        rows: How many.
        values: Shape (rows, …) for the fixed form, (elements, …) for the ragged one.
        ends: Shape (rows + 1,): where the elements of each row begin in ``values``; None for other forms.
        valid: False where a row is null; None without nulls.
        array: Only for the arrow form.
    """

    form: Form
    rows: int
    values: npt.NDArray[Any] | None
    ends: Ints | None
    valid: npt.NDArray[np.bool_] | None
    array: Any

    def slice(self, low: int, high: int) -> "Column":
        """Some of the rows, on the same memory."""
        valid = None if self.valid is None else self.valid[low:high]
        values, ends = self.values, self.ends
        if values is not None and ends is not None:
            values, ends = values[ends[low] : ends[high]], ends[low : high + 1] - ends[low]
        elif values is not None:
            values = values[low:high]
        array = None if self.array is None else self.array.slice(low, high - low)
        return Column(form=self.form, rows=high - low, values=values, ends=ends, valid=valid, array=array)

    def arrow(self) -> Any:
        """As an array of the logical Arrow type, on the same memory where Arrow can.

        Raises:
            InvalidInputError: ``input.invalid`` from 2^31 elements on.
        """
        if self.values is None:
            return self.array
        mask = None if self.valid is None or self.valid.all() else pa.array(~self.valid)
        if self.ends is None:
            return _dressed(self.values, self.form.arrow, mask)
        if int(self.ends[-1]) > _MAX32:
            raise InvalidInputError(ErrorCode.INPUT_INVALID, "these rows have too many elements for one Arrow array")
        ends = self.ends.astype(np.int32)
        if pa.types.is_list(self.form.arrow):
            values = _dressed(self.values, self.form.arrow.value_type, None)
            return pa.ListArray.from_arrays(pa.array(ends), values, type=self.form.arrow, mask=mask)
        return pa.Array.from_buffers(
            self.form.arrow, self.rows, [_bits(mask), pa.py_buffer(ends), pa.py_buffer(self.values)]
        )


def gather(parts: Sequence[Taken], count: int) -> Column:
    """Rows of several shards in one piece: part p's row i goes to place ``at[i]``; the places are 0 … count−1."""
    form = parts[0].column.form
    if any(part.column.form.kind == "arrow" for part in parts):
        return _gather_arrow(parts, count)
    valid = _gather_valid(parts, count)
    if form.kind == "fixed" and form.width <= _INLINE:
        rows = np.empty((count, form.width), np.uint8)
        for part in parts:
            rows[part.at] = _matrix(part.column)[part.rows]
        return _column(form, count, rows.reshape(-1), None, valid)
    first, length = np.empty(count, np.int64), np.empty(count, np.int64)
    for part in parts:
        first[part.at], length[part.at] = part.column.spans(part.rows)
    data = _gather_bytes(parts, first, length)
    if form.kind == "fixed":
        return _column(form, count, data, None, valid)
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(length // form.width, out=ends[1:])
    return _column(form, count, data, ends, valid)


class RowViews:
    """Rows of several shards where they lie: each is a view of a mapped file.

    Args:
        columns: The column in each of the shards.
        slots: Which of them each row is in.
        rows: Its number there.
        flat: Make each row of a fixed form one-dimensional.

    Raises:
        InvalidInputError: ``input.column-type``: rows that are no numbers.
    """

    def __init__(self, columns: Sequence[StoredColumn], slots: Ints, rows: Ints, *, flat: bool = False) -> None:
        self._flat = [_numbers_of(column, flat=flat) for column in columns]
        self._plain = any(one.ndim == 1 for one in self._flat)  # an index alone would give numbers and no arrays
        self._slots = slots.tolist()
        self._first = rows.tolist()
        self._last: list[int] | None = None
        if columns and columns[0].starts is not None:
            first, length = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
            for slot, column in enumerate(columns):
                at = np.flatnonzero(slots == slot)
                first[at], length[at] = column.spans(rows[at])
            width = columns[0].form.width
            self._first, self._last = (first // width).tolist(), ((first + length) // width).tolist()

    def between(self, low: int, high: int, made: Callable[[npt.NDArray[Any]], V]) -> list[V]:
        """What ``made`` makes of rows low … high−1, which are of a row's shape, or (elements, …)."""
        flat, slots, first = self._flat, self._slots[low:high], self._first[low:high]
        if self._last is not None:
            return [made(flat[slot][a:b]) for slot, a, b in zip(slots, first, self._last[low:high], strict=True)]
        if self._plain:
            return [made(flat[slot][row, ...]) for slot, row in zip(slots, first, strict=True)]
        return [made(flat[slot][row]) for slot, row in zip(slots, first, strict=True)]


def _numbers_of(column: StoredColumn, *, flat: bool) -> npt.NDArray[Any]:
    if column.data is None:
        raise InvalidInputError(ErrorCode.INPUT_COLUMN_TYPE, "only rows of numbers, strings and binaries have views")
    shape = (math.prod(column.form.shape),) if flat else column.form.shape
    return column.data.view(column.form.dtype).reshape(-1, *shape)


def pick(columns: Sequence[StoredColumn], slots: Ints, rows: Ints) -> Column:
    """Row ``rows[i]`` of column ``slots[i]``, copied one by one: for few rows of many bytes."""
    form = columns[0].form
    valid = None
    if any(column.valid is not None for column in columns):
        pairs = zip(slots.tolist(), rows.tolist(), strict=True)
        valid = np.array([(of := columns[slot].valid) is None or of[row] for slot, row in pairs], np.bool_)
    views = RowViews(columns, slots, rows, flat=form.kind == "fixed").between(0, len(rows), _itself)
    ends = np.cumsum([0, *map(len, views)]) if form.kind == "ragged" else None
    # One-dimensional arrays are put together at half the price of a stack.
    values = np.concatenate(views) if views else np.empty(0, form.dtype)
    shaped = values.reshape(len(rows) if ends is None else int(ends[-1]), *form.shape)
    return Column(form=form, rows=len(rows), values=shaped, ends=ends, valid=valid, array=None)


def _itself(view: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return view


def _column(form: Form, rows: int, data: Bytes, ends: Ints | None, valid: npt.NDArray[np.bool_] | None) -> Column:
    values = data.view(form.dtype).reshape(-1, *form.shape)
    return Column(form=form, rows=rows, values=values, ends=ends, valid=valid, array=None)


def _matrix(column: StoredColumn) -> Bytes:
    assert column.data is not None
    return column.data.reshape(-1, column.form.width)


def _gather_valid(parts: Sequence[Taken], count: int) -> npt.NDArray[np.bool_] | None:
    if all(part.column.valid is None for part in parts):
        return None
    valid = np.ones(count, np.bool_)
    for part in parts:
        if part.column.valid is not None:
            valid[part.at] = part.column.valid[part.rows]
    return valid


def _gather_bytes(parts: Sequence[Taken], first: Ints, length: Ints) -> Bytes:
    """The bytes of all rows one after the other, each copied once: Arrow copies what a list of views points to.

    A view is (i32 length, then 12 bytes themselves or: 4 first bytes, i32 buffer, i32 place in it). The first bytes
    serve comparisons alone and are left out.
    """
    if len(length) == 0 or int(length.max()) > _PIECE:
        return _copy_rows(parts, first, length)
    views = np.zeros((len(length), 4), np.int32)
    views[:, 0] = length
    views[:, 3] = first % _PIECE
    buffers: list[Any] = []
    for part in parts:
        views[part.at, 2] = len(buffers) + first[part.at] // _PIECE
        whole = part.column.array.buffers()[-1] or pa.py_buffer(b"")
        starts = range(0, max(whole.size, 1), _PIECE)
        buffers += [whole.slice(start, min(_MAX32, whole.size - start)) for start in starts]
        _inline(views, part, first, length)
    array = pa.Array.from_buffers(pa.binary_view(), len(length), [None, pa.py_buffer(views), *buffers])
    return _bytes_of(array.cast(pa.large_binary()))


def _inline(views: npt.NDArray[np.int32], part: Taken, first: Ints, length: Ints) -> None:
    """Short rows are in the view itself."""
    short = part.at[length[part.at] <= _INLINE]
    if len(short) == 0:
        return
    assert part.column.data is not None
    reach = np.arange(_INLINE)
    places = np.minimum(first[short, None] + reach, max(len(part.column.data) - 1, 0))
    data = part.column.data if len(part.column.data) else np.zeros(1, np.uint8)
    rows = np.where(reach < length[short, None], data[places], np.uint8(0)).astype(np.uint8)
    views[short, 1:] = rows.view(np.int32)


def _copy_rows(parts: Sequence[Taken], first: Ints, length: Ints) -> Bytes:
    """The same row by row, for rows that no view can reach."""
    ends = np.concatenate([[0], np.cumsum(length)])
    out = np.empty(int(ends[-1]), np.uint8)
    for part in parts:
        assert part.column.data is not None
        for at in part.at.tolist():
            out[ends[at] : ends[at + 1]] = part.column.data[first[at] : first[at] + length[at]]
    return out


class _Memory:
    """A buffer's memory without Arrow's mark of being read-only, which torch warns about.

    What was gathered belongs to the batch; a mapped file is mapped privately.
    """

    def __init__(self, buffer: Any, size: int) -> None:
        self.buffer = buffer
        self.__array_interface__ = {"data": (buffer.address, False), "shape": (size,), "typestr": "|u1", "version": 3}


def _bytes_of(array: Any) -> Bytes:
    size = int(np.frombuffer(array.buffers()[1], np.int64)[len(array)])
    return np.asarray(_Memory(array.buffers()[2], size)) if size else np.zeros(0, np.uint8)


def _gather_arrow(parts: Sequence[Taken], count: int) -> Column:
    form = parts[0].column.form.as_arrow()
    pieces = [part.column.logical().take(pa.array(part.rows)) for part in parts]
    back = np.empty(count, np.int64)
    back[np.concatenate([part.at for part in parts])] = np.arange(count)
    array = pa.concat_arrays(pieces).take(pa.array(back))
    return Column(form=form, rows=count, values=None, ends=None, valid=None, array=array)


def _dressed(values: npt.NDArray[Any], arrow: Any, mask: Any) -> Any:
    if pa.types.is_fixed_size_list(arrow):
        inner = _dressed(values.reshape(-1, *values.shape[2:]), arrow.value_type, None)
        return pa.FixedSizeListArray.from_arrays(inner, type=arrow, mask=mask)
    if pa.types.is_boolean(arrow):
        return pa.array(values, mask=None if mask is None else mask.to_numpy(zero_copy_only=False))
    return pa.Array.from_buffers(arrow, len(values), [_bits(mask), pa.py_buffer(np.ascontiguousarray(values))])


def _bits(mask: Any) -> Any:
    """Arrow's bits of validity from a mask of nulls."""
    if mask is None:
        return None
    return pa.py_buffer(np.packbits(~mask.to_numpy(zero_copy_only=False), bitorder="little"))

"""Forms that a decoded column takes in memory, and how Arrow carries them. Source: schemas/SPEC.md#decoded-columns.

A row of a fixed or ragged form is one run of bytes, so rows are gathered by copying bytes and a whole batch is one
tensor. Everything else stays in its Arrow type.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.canonical.schema import logical_arrow_type
from shardrel.records.schema import (
    BinaryType,
    BoolType,
    DateType,
    DurationType,
    Field,
    FixedBinaryType,
    FloatType,
    IntType,
    ListType,
    LogicalType,
    StringType,
    TimestampType,
    TimeType,
)

Kind = Literal["fixed", "ragged", "arrow"]

_DATES = {"day": "<i4", "ms": "<i8"}
_TIMES = {"s": "<i4", "ms": "<i4", "us": "<i8", "ns": "<i8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How a column's rows lie in memory.

    Attributes:
        kind: ``fixed``: every row has ``shape``; ``ragged``: a row is any number of elements of ``shape``;
            ``arrow``: rows of the logical Arrow type.
        dtype: Of the numbers; bytes of strings and binaries are ``uint8``.
        shape: Of a row or of an element; ``()`` for plain numbers.
        arrow: The column's logical Arrow type.
    """

    kind: Kind
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    arrow: Any

    @property
    def width(self) -> int:
        """Bytes of a row (fixed) or of an element (ragged)."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def as_arrow(self) -> "Form":
        """The form that holds any value of the column."""
        return replace(self, kind="arrow", shape=())


def form_of(field: Field) -> Form:
    """The form of a column, by its logical type alone."""
    arrow = logical_arrow_type(field)
    kind, dtype, shape = _form(field.type)
    return Form(kind=kind, dtype=np.dtype(dtype), shape=shape, arrow=arrow)


def _form(logical: LogicalType) -> tuple[Kind, str, tuple[int, ...]]:
    if isinstance(logical, StringType | BinaryType):
        return "ragged", "u1", ()
    if (fixed := _fixed(logical)) is not None:
        return "fixed", *fixed
    if isinstance(logical, ListType) and logical.size is None:
        element = _fixed(logical.element.type)
        if element is not None:
            return "ragged", *element
    return "arrow", "u1", ()


def _fixed(logical: LogicalType) -> tuple[str, tuple[int, ...]] | None:
    """Number type and shape of a value that always has the same bytes, at least one."""
    if isinstance(logical, FixedBinaryType):
        return ("u1", (logical.size,)) if logical.size else None
    if isinstance(logical, ListType):
        inner = _fixed(logical.element.type) if logical.size else None
        return None if inner is None or logical.size is None else (inner[0], (logical.size, *inner[1]))
    dtype = _number(logical)
    return None if dtype is None else (dtype, ())


def _number(logical: LogicalType) -> str | None:
    if isinstance(logical, IntType):
        return f"<{'i' if logical.signed else 'u'}{logical.bits // 8}"
    if isinstance(logical, FloatType):
        return f"<f{logical.bits // 8}"
    if isinstance(logical, DateType):
        return _DATES[logical.unit]
    if isinstance(logical, TimeType):
        return _TIMES[logical.unit]
    if isinstance(logical, TimestampType | DurationType):
        return "<i8"
    return "?" if isinstance(logical, BoolType) else None


def stored_type(form: Form) -> Any:
    """Arrow type of the form in a decoded file."""
    if form.kind == "arrow":
        return form.arrow
    return pa.large_binary() if form.kind == "ragged" else pa.binary(form.width)


def to_stored(array: Any, form: Form) -> Any:
    """An array of the logical type as rows of bytes; itself where an element is null or the form says so."""
    if form.kind == "arrow":
        return array
    valid = _validity(array)
    if form.kind == "fixed":
        values = _numbers(array, form)
        if values is None:
            return array
        return pa.Array.from_buffers(stored_type(form), len(array), [valid, pa.py_buffer(values)])
    offsets, values = _list_parts(array, form)
    if values is None:
        return array
    ends = pa.py_buffer(np.ascontiguousarray((offsets - offsets[0]) * form.width))
    return pa.Array.from_buffers(stored_type(form), len(array), [valid, ends, pa.py_buffer(values)])


def _validity(array: Any) -> Any:
    if not array.null_count:
        return None
    return pa.py_buffer(np.packbits(array.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))


def _numbers(array: Any, form: Form) -> npt.NDArray[Any] | None:
    """All numbers of fixed-width values in one piece; None where an element of a row that is no null is null."""
    inside = array
    while pa.types.is_fixed_size_list(inside.type):
        inside = inside.flatten()  # leaves out what is under a null row
        if inside.null_count:
            return None
    while pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        array = array.values.slice(array.offset * size, len(array) * size)
    if pa.types.is_boolean(array.type):
        return np.asarray(pc.fill_null(array, fill_value=False).to_numpy(zero_copy_only=False), np.bool_)
    width = array.type.byte_width
    buffer = array.buffers()[1]
    raw = np.zeros((array.offset + len(array)) * width, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
    return raw[array.offset * width : (array.offset + len(array)) * width]


def _list_parts(array: Any, form: Form) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any] | None]:
    """Offsets in elements and the bytes between the first and the last of them."""
    kind = array.type
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) or pa.types.is_large_list(kind)
    buffers = array.buffers()
    if len(array) == 0:
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    raw = np.frombuffer(buffers[1], np.int64 if wide else np.int32)
    offsets = raw[array.offset : array.offset + len(array) + 1].astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        elements = array.values.slice(first, last - first)
        return offsets, None if elements.null_count else _numbers(elements, form)
    return offsets, np.frombuffer(buffers[2] or b"", np.uint8)[first:last]

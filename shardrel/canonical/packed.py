"""Packed columns: a row's numbers as one run of bytes, with the same content digest. Source: schemas/SPEC.md#packed

Parquet stores a list element by element, with a level for each; bytes are stored and read back as they are.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from shardrel.canonical.physical import physical_schema
from shardrel.canonical.plain import null_mask, offsets_of
from shardrel.errors import ErrorCode, InvalidInputError, no_such_column
from shardrel.records.schema import Field, FloatType, IntType, ListType, RecordSchema

_MAX32 = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How the rows of a column lie in bytes.

    Attributes:
        sizes: Numbers of the fixed-size lists inside of the column's list, outermost first.
        width: Bytes of a number.
    """

    sizes: tuple[int, ...]
    width: int

    @property
    def element(self) -> int:
        """Bytes of one element of the column's list."""
        return math.prod(self.sizes) * self.width


def packing_of(field: Field) -> Packing | None:
    """How a column is packed; None for one that cannot be."""
    if not isinstance(field.type, ListType):
        return None
    sizes: list[int] = []
    inner = field.type.element.type
    while isinstance(inner, ListType) and inner.size:
        sizes.append(inner.size)
        inner = inner.element.type
    if not isinstance(inner, IntType | FloatType):
        return None
    packing = Packing(sizes=tuple(sizes), width=inner.bits // 8)
    return packing if packing.element <= _MAX32 else None


def packed_fields(schema: RecordSchema, columns: Iterable[str]) -> tuple[Field, ...]:
    """The fields of columns that are to be packed, each once.

    Raises:
        InvalidInputError: ``input.no-such-column``; ``input.column-type`` for one that holds no lists of numbers.
    """
    known = {field.name: field for field in schema.fields}
    fields = []
    for name in dict.fromkeys(columns):
        if name not in known:
            raise no_such_column("the snapshot", name, list(known))
        if packing_of(known[name]) is None:
            raise InvalidInputError(
                ErrorCode.INPUT_COLUMN_TYPE,
                f"column {name!r} cannot be packed: only lists of integers or floats can",
                column=name,
            )
        fields.append(known[name])
    return tuple(fields)


def pack(table: Any, fields: Iterable[Field]) -> Any:
    """A table in physical types with some of its columns packed.

    Raises:
        InvalidInputError: ``input.null-not-allowed`` with ``column`` and ``row`` where a number is null; ``input.invalid``
            for rows of more than 2 GiB.
    """
    for field in fields:
        at_column = table.schema.get_field_index(field.name)
        packed = _pack(table.column(at_column).combine_chunks(), field)
        table = table.set_column(at_column, pa.field(field.name, pa.binary(), nullable=field.nullable), packed)
    return table


def unpacked(table: Any, fields: Iterable[Field]) -> Any:
    """A table as it is read from a shard, with every column in its physical type.

    Raises:
        pa.ArrowInvalid: Bytes that are no whole number of elements.
    """
    for field in fields:
        at_column = table.schema.get_field_index(field.name)
        if at_column < 0 or not at.is_binary(table.schema.field(at_column).type):
            continue
        packing = packing_of(field)
        if packing is not None:
            target = physical_schema(RecordSchema(fields=(field,))).field(0)
            chunks = [_unpack(chunk, packing, target.type) for chunk in table.column(at_column).chunks]
            table = table.set_column(at_column, target, pa.chunked_array(chunks, target.type))
    return table


def _pack(lists: Any, field: Field) -> Any:
    packing = packing_of(field)
    assert packing is not None  # ``packed_fields`` took no other
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    values = _numbers(lists.flatten(), packing, offsets, field.name)
    offsets *= packing.element
    if int(offsets[-1]) > _MAX32:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "the values of these rows pass 2 GiB: hand in fewer rows")
    mask = null_mask(lists)
    bits = None if mask is None else pa.py_buffer(np.packbits(~np.asarray(mask), bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(lists), [bits, pa.py_buffer(offsets.astype(np.int32)), values])


def _numbers(values: Any, packing: Packing, offsets: Any, column: str) -> Any:
    """The bytes of all rows' numbers; ``offsets`` count the outermost elements."""
    numbers = 1
    for size in (*packing.sizes, None):
        if values.null_count:
            first = int(np.argmin(values.is_valid().to_numpy(zero_copy_only=False))) // numbers
            raise InvalidInputError(
                ErrorCode.INPUT_NOT_NULL,
                f"a list of column {column!r} has a null among its numbers, which a packed column cannot hold",
                column=column,
                row=int(np.searchsorted(offsets, first, side="right")) - 1,
            )
        if size is not None:
            values, numbers = values.flatten(), numbers * size
    data = values.buffers()[1] or pa.py_buffer(b"")
    return data.slice(values.offset * packing.width, len(values) * packing.width)


def _unpack(data: Any, packing: Packing, target: Any) -> Any:
    offsets = offsets_of(data).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    offsets -= first
    if (offsets % packing.element).any():
        raise pa.ArrowInvalid("the bytes of a packed list are no whole number of elements")
    types = [target.value_type]
    for _ in packing.sizes:
        types.append(types[-1].value_type)
    buffer = (data.buffers()[2] or pa.py_buffer(b"")).slice(first, last - first)
    if buffer.address % packing.width:  # Arrow asks for numbers at their own borders
        buffer = pa.py_buffer(buffer.to_pybytes())
    values = pa.Array.from_buffers(types.pop(), (last - first) // packing.width, [None, buffer])
    for size in reversed(packing.sizes):
        borders = np.arange(0, len(values) + 1, size, dtype=np.int32)
        values = pa.ListArray.from_arrays(pa.array(borders), values, type=types.pop())
    borders = (offsets // packing.element).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(borders), values, type=target, mask=null_mask(data))

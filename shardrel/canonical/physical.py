"""Physical types: what Parquet is given, a pure function of the logical type. Source: schemas/SPEC.md#physical-types"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as at

from shardrel.canonical.plain import list_ranges, map_ranges, null_mask, offsets_of, plain, valid_mask
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.schema import (
    BinaryType,
    BoolType,
    DateType,
    DecimalType,
    DurationType,
    Field,
    FixedBinaryType,
    FloatType,
    IntType,
    ListType,
    LogicalType,
    MapType,
    NullType,
    RecordSchema,
    Slot,
    StringType,
    StructType,
    TimestampType,
    TimeType,
)

_MAX32 = 2**31 - 1
_FLOATS = {16: pa.float16(), 32: pa.float32(), 64: pa.float64()}


def physical_schema(schema: RecordSchema) -> Any:
    """The ``pa.Schema`` that a shard's payload columns are written with; nullability is kept."""
    return pa.schema([_arrow_field(field.name, field, _physical_leaf) for field in schema.fields])


def logical_arrow_type(field: Field | Slot) -> Any:
    """The plain ``pa.DataType`` that says all that the logical type says (an extension as its storage)."""
    return _arrow_type(field.type, _logical_leaf)


def to_physical(array: Any, field: Field | Slot) -> Any:
    """A column in any clothing as one array of its physical type.

    Args:
        array: ``pa.Array`` or ``pa.ChunkedArray`` whose logical type is the field's.
        field: Column of the record schema; its nullability goes into the type's children.

    Returns:
        ``pa.Array`` with the same values.

    Raises:
        InvalidInputError: ``input.invalid`` when the strings or lists pass 2 GiB: hand in fewer rows.
    """
    target = _arrow_type(field.type, _physical_leaf)
    if isinstance(array, pa.ChunkedArray):
        chunks = [_dress(plain(chunk), target) for chunk in array.chunks if len(chunk)]
        return pa.concat_arrays(chunks) if chunks else pa.array([], target)
    return _dress(plain(array), target)


Leaf = Callable[[LogicalType], Any]


def _arrow_field(name: str, place: Field | Slot, leaf: Leaf) -> Any:
    return pa.field(name, _arrow_type(place.type, leaf), nullable=place.nullable)


def _arrow_type(logical: LogicalType, leaf: Leaf) -> Any:
    if isinstance(logical, ListType):
        element = _arrow_field("element", logical.element, leaf)
        size = logical.size if leaf is _logical_leaf else None
        return pa.list_(element, -1 if size is None else size)
    if isinstance(logical, StructType):
        return pa.struct([_arrow_field(field.name, field, leaf) for field in logical.fields])
    if isinstance(logical, MapType):
        return pa.map_(_arrow_field("key", logical.key, leaf), _arrow_field("value", logical.value, leaf))
    return leaf(logical)


def _physical_leaf(logical: LogicalType) -> Any:
    """Where Parquet has no such type, the integer (or the bytes) that carries the value."""
    if isinstance(logical, DateType) and logical.unit == "ms":
        return pa.int64()
    if isinstance(logical, TimeType) and logical.unit == "s":
        return pa.int32()
    if isinstance(logical, TimestampType):
        return pa.int64() if logical.unit == "s" else pa.timestamp(logical.unit, logical.zone and "UTC")
    if isinstance(logical, DurationType):
        return pa.int64()
    if isinstance(logical, DecimalType) and not 0 <= logical.scale <= logical.precision:
        return _decimal(logical.precision, 0)
    if isinstance(logical, FixedBinaryType) and logical.size == 0:
        return pa.binary()
    return _logical_leaf(logical)


def _logical_leaf(logical: LogicalType) -> Any:
    if isinstance(logical, DateType):
        return pa.date32() if logical.unit == "day" else pa.date64()
    if isinstance(logical, TimeType):
        return pa.time32(logical.unit) if logical.unit in ("s", "ms") else pa.time64(logical.unit)
    if isinstance(logical, TimestampType):
        return pa.timestamp(logical.unit, logical.zone)
    if isinstance(logical, DurationType):
        return pa.duration(logical.unit)
    return _scalar(logical)


def _scalar(logical: LogicalType) -> Any:
    if isinstance(logical, IntType):
        return pa.type_for_alias(f"{'' if logical.signed else 'u'}int{logical.bits}")
    if isinstance(logical, FloatType):
        return _FLOATS[logical.bits]
    if isinstance(logical, DecimalType):
        return _decimal(logical.precision, logical.scale)
    if isinstance(logical, FixedBinaryType):
        return pa.binary(logical.size)
    return {NullType: pa.null(), BoolType: pa.bool_(), StringType: pa.string(), BinaryType: pa.binary()}[type(logical)]


def _decimal(precision: int, scale: int) -> Any:
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def _dress(array: Any, target: Any) -> Any:
    """A plain array in the target type: other labels and 32-bit offsets, the same bytes."""
    if array.type == target:
        return array
    if at.is_list(target):
        offsets, values = list_ranges(array)
        return pa.ListArray.from_arrays(
            _narrow(offsets), _dress(values, target.value_type), type=target, mask=null_mask(array)
        )
    if at.is_map(target):
        offsets, keys, items = map_ranges(array)
        keys, items = _dress(keys, target.key_type), _dress(items, target.item_type)
        return pa.MapArray.from_arrays(_narrow(offsets), keys, items, type=target, mask=null_mask(array))
    if at.is_struct(target):
        fields = [target.field(i) for i in range(target.num_fields)]
        children = [_dress(array.field(i), field.type) for i, field in enumerate(fields)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=null_mask(array))
    return _dress_leaf(array, target)


def _dress_leaf(array: Any, target: Any) -> Any:
    buffers = array.buffers()
    if at.is_fixed_size_binary(array.type) and at.is_binary(target):
        return array.cast(target)
    if not (at.is_string(target) or at.is_binary(target)) or at.is_string(array.type) or at.is_binary(array.type):
        return pa.Array.from_buffers(target, len(array), buffers, offset=array.offset)
    offsets = offsets_of(array)
    first, last = int(offsets[0]), int(offsets[-1])
    data = (buffers[2] or pa.py_buffer(b"")).slice(first, last - first)
    bits = pa.py_buffer(np.packbits(valid_mask(array), bitorder="little")) if array.null_count else None
    return pa.Array.from_buffers(target, len(array), [bits, _narrow(offsets - first).buffers()[1], data])


def _narrow(offsets: Any) -> Any:
    if int(offsets[-1]) > _MAX32:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "the values of these rows pass 2 GiB: hand in fewer rows")
    return pa.array(offsets.astype(np.int32))

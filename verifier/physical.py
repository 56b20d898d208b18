"""What a shard's Parquet columns must look like for a record schema, and whether values fit it.

Source: schemas/SPEC.md#physical-types
"""

from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from shardrel.records import schema as rs

TUPLE_COLUMNS = ("_shardrel_sample_id", "_shardrel_source_id", "_shardrel_source_version", "_shardrel_split")

_INTS = {
    (bits, signed): getattr(pa, f"{'' if signed else 'u'}int{bits}")()
    for bits in (8, 16, 32, 64)
    for signed in (True, False)
}
_FLOATS = {16: pa.float16(), 32: pa.float32(), 64: pa.float64()}


def shard_schema(schema: rs.RecordSchema, packed: Collection[str] = ()) -> pa.Schema:
    """Arrow schema that a shard must have when it is read without believing anything but its Parquet types.

    Args:
        schema: Of the records.
        packed: Columns whose lists are stored as bytes.
    """
    tuple_fields = [pa.field(name, pa.string(), nullable=False) for name in TUPLE_COLUMNS]
    return pa.schema([*tuple_fields, *(_stored(field, packed) for field in schema.fields)])


def _stored(field: rs.Field, packed: Collection[str]) -> pa.Field:
    return pa.field(field.name, pa.binary(), nullable=field.nullable) if field.name in packed else _field(field)


def _field(field: rs.Field) -> pa.Field:
    return pa.field(field.name, physical_type(field.type), nullable=field.nullable)


def physical_type(kind: rs.LogicalType) -> Any:
    """The plain Arrow type of a logical type."""
    match kind:
        case rs.ListType(element=element):
            return pa.list_(pa.field("element", physical_type(element.type), nullable=element.nullable))
        case rs.StructType(fields=fields):
            return pa.struct([_field(field) for field in fields])
        case rs.MapType(key=key, value=value):
            item = pa.field("value", physical_type(value.type), nullable=value.nullable)
            return pa.map_(pa.field("key", physical_type(key.type), nullable=False), item)
    return _flat_type(kind)


def _flat_type(kind: rs.LogicalType) -> Any:
    match kind:
        case rs.NullType():
            return pa.null()
        case rs.BoolType():
            return pa.bool_()
        case rs.IntType(bits=bits, signed=signed):
            return _INTS[bits, signed]
        case rs.FloatType(bits=bits):
            return _FLOATS[bits]
        case rs.DecimalType(precision=precision, scale=scale):
            # Parquet has no decimals whose scale is negative or above the precision: their unscaled integers.
            written = scale if 0 <= scale <= precision else 0
            return pa.decimal128(precision, written) if precision <= 38 else pa.decimal256(precision, written)
        case rs.StringType():
            return pa.string()
        case rs.BinaryType():
            return pa.binary()
        case rs.FixedBinaryType(size=size):
            return pa.binary(size) if size else pa.binary()
    return _time_type(kind)


def _time_type(kind: Any) -> Any:
    match kind:
        case rs.DateType(unit=unit):
            return pa.date32() if unit == "day" else pa.int64()
        case rs.TimeType(unit="s"):
            return pa.int32()
        case rs.TimeType(unit=unit):
            return pa.time32(unit) if unit == "ms" else pa.time64(unit)
        case rs.TimestampType(unit="s") | rs.DurationType():
            return pa.int64()
        case rs.TimestampType(unit=unit, zone=zone):
            return pa.timestamp(unit, None if zone is None else "UTC")
    raise TypeError("a logical type without a physical one")


def fits(kind: rs.LogicalType, values: Any) -> bool:
    """Whether a column holds only values of its logical type, where its physical type allows more.

    That is lists of another size than the declared one, decimals with more digits than declared and
    fixed binary values of no bytes that have some.
    Values hidden under a null do not count.
    """
    match kind:
        case rs.DecimalType():
            return _digits_fit(values)
        case rs.FixedBinaryType(size=0):
            entries = values.dictionary if pt.is_dictionary(values.type) else values
            return not (pc.max(pc.binary_length(entries)).as_py() or 0)
        case rs.ListType(element=element, size=size):
            sized = size is None or not pc.any(pc.not_equal(pc.list_value_length(values), size)).as_py()
            return sized and (not _looser(element.type) or fits(element.type, pc.list_flatten(values)))
        case rs.StructType(fields=fields):
            children = values.flatten()
            return all(fits(f.type, child) for f, child in zip(fields, children, strict=True) if _looser(f.type))
        case rs.MapType(key=key, value=value):
            if not (_looser(key.type) or _looser(value.type)):
                return True
            keys, items = pc.list_flatten(map_as_list(values)).flatten()
            return fits(key.type, keys) and fits(value.type, items)
    return True


def _looser(kind: rs.LogicalType) -> bool:
    """Whether the physical type allows values that the logical type may not."""
    if isinstance(kind, rs.FixedBinaryType):
        return kind.size == 0
    return isinstance(kind, rs.DecimalType | rs.ListType | rs.StructType | rs.MapType)


def _digits_fit(values: Any) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def map_as_list(values: Any) -> Any:
    """A map array as a list of key and value pairs, which is how it is laid out."""
    kind = values.type
    pair = pa.struct([kind.key_field.with_name("key"), kind.item_field.with_name("value")])
    return values.cast(pa.list_(pair))

"""Logical types in words, and which of two holds all values of the other. Pure.

Source: schemas/SPEC.md#schema-evolution
"""

from shardrel.records.schema import (
    BinaryType,
    DateType,
    DecimalType,
    DurationType,
    Field,
    FixedBinaryType,
    FloatType,
    IntType,
    ListType,
    LogicalType,
    NullType,
    Slot,
    TimestampType,
    TimeType,
)

_UNITS = ("s", "ms", "us", "ns")


def in_words(place: Slot | Field) -> str:
    """The type at a place, without what is inside of it."""
    extension = place.extension
    if extension is None:
        return _type(place.type)
    parameters = f"({extension.parameters})" if extension.parameters else ""
    return f"{_type(place.type)} as {extension.name}{parameters}"


def _type(kind: LogicalType) -> str:
    match kind:
        case IntType(bits=bits, signed=signed):
            return f"{'int' if signed else 'uint'}{bits}"
        case FloatType(bits=bits):
            return f"float{bits}"
        case DecimalType(precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case DateType(unit=unit) | TimeType(unit=unit) | DurationType(unit=unit) | TimestampType(unit=unit, zone=None):
            return f"{_tag(kind)}[{unit}]"
        case TimestampType(unit=unit, zone=zone):
            return f"timestamp[{unit},{zone}]"
        case FixedBinaryType(size=size):
            return f"fixed-binary[{size}]"
        case ListType(size=size) if size is not None:
            return f"list[{size}]"
        case _:
            return _tag(kind)


def _tag(kind: LogicalType) -> str:
    return str(type(kind).__struct_config__.tag)


def holds(wide: LogicalType, narrow: LogicalType) -> bool:
    """Whether every value of ``narrow`` is, unchanged, a value of the other type ``wide``; insides are not looked at."""
    match narrow, wide:
        case NullType(), _:
            return not isinstance(wide, NullType)
        case IntType(), IntType():
            return wide.bits > narrow.bits and (wide.signed or not narrow.signed)
        case FloatType(), FloatType():
            return wide.bits > narrow.bits
        case DecimalType(), DecimalType():
            more = (wide.scale - narrow.scale, wide.precision - wide.scale - narrow.precision + narrow.scale)
            return min(more) >= 0 and max(more) > 0
        case DateType(), DateType():
            return (narrow.unit, wide.unit) == ("day", "ms")
        case TimeType(), TimeType():
            return _UNITS.index(wide.unit) > _UNITS.index(narrow.unit)
        case FixedBinaryType(), BinaryType():
            return True
        case ListType(), ListType():
            return wide.size is None and narrow.size is not None
        case _:
            return False

"""What values a type has, as an interval of its family; and its words. The verifier's own reading.

Source: schemas/SPEC.md#schema-evolution
"""

from dataclasses import dataclass

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
    Slot,
    StringType,
    StructType,
    TimestampType,
    TimeType,
)

_FINER = {"s": 0, "ms": 3, "us": 6, "ns": 9, "day": -5}
_ANY = 1 << 64


@dataclass(frozen=True, slots=True)
class Extent:
    """Values between two bounds in one family; types of other families have none in common."""

    family: str
    low: int = 0
    high: int = 0

    def within(self, other: "Extent") -> bool:
        """Whether the other one, which is not the same, has all of these values."""
        if self.family == "null":
            return other.family != "null"
        return self.family == other.family and other.low <= self.low and self.high <= other.high


def extent(kind: LogicalType) -> Extent:
    """The extent of a type, without what is inside of it."""
    match kind:
        case IntType(bits=bits, signed=True):
            return Extent("int", -(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        case IntType(bits=bits):
            return Extent("int", 0, (1 << bits) - 1)
        case FloatType(bits=bits):
            return Extent("float", -bits, bits)
        case DecimalType(precision=precision, scale=scale):
            return Extent("decimal", -scale, precision - scale)
        case DateType(unit=unit):
            return Extent("date", -_FINER[unit], 0)
        case TimeType(unit=unit):
            return Extent("time", -_FINER[unit], 0)
        case FixedBinaryType(size=size):
            return Extent("binary", size, size)
        case BinaryType():
            return Extent("binary", 0, _ANY)
        case ListType(size=size):
            return Extent("list", 0, _ANY) if size is None else Extent("list", size, size)
        case _:
            return Extent(_words(kind))


def words(place: Slot | Field) -> str:
    """A type as a report names it."""
    said, extension = _words(place.type), place.extension
    if extension is not None:
        said += f" as {extension.name}" + (f"({extension.parameters})" if extension.parameters else "")
    return said


_NAMES = {
    NullType: "null", BoolType: "bool", StringType: "string", BinaryType: "binary", StructType: "struct", MapType: "map",
}  # fmt: skip


def _words(kind: LogicalType) -> str:
    match kind:
        case IntType():
            return ("int" if kind.signed else "uint") + str(kind.bits)
        case FloatType():
            return "float" + str(kind.bits)
        case DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
        case DateType():
            return f"date[{kind.unit}]"
        case TimeType():
            return f"time[{kind.unit}]"
        case DurationType():
            return f"duration[{kind.unit}]"
        case TimestampType():
            return f"timestamp[{kind.unit}]" if kind.zone is None else f"timestamp[{kind.unit},{kind.zone}]"
        case FixedBinaryType():
            return f"fixed-binary[{kind.size}]"
        case ListType():
            return "list" if kind.size is None else f"list[{kind.size}]"
        case _:
            return _NAMES[type(kind)]

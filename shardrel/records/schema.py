"""Record schema: the columns of a release by logical type. Source: schemas/SPEC.md#record-schema"""

from typing import Annotated, Literal, Union

import msgspec

from shardrel.records.fields import END, Record


class _Type(Record, tag_field="kind", frozen=True, kw_only=True):
    """A logical type."""


class NullType(_Type, tag="null", frozen=True, kw_only=True):
    """Only nulls."""


class BoolType(_Type, tag="bool", frozen=True, kw_only=True):
    """True or false."""


class IntType(_Type, tag="int", frozen=True, kw_only=True):
    """Integer of ``bits`` bits."""

    bits: Literal[8, 16, 32, 64]
    signed: bool


class FloatType(_Type, tag="float", frozen=True, kw_only=True):
    """IEEE 754 binary of ``bits`` bits."""

    bits: Literal[16, 32, 64]


class DecimalType(_Type, tag="decimal", frozen=True, kw_only=True):
    """Decimal of any physical width: ``precision`` digits, ``scale`` of them behind the point."""

    precision: Annotated[int, msgspec.Meta(ge=1, le=76)]
    scale: Annotated[int, msgspec.Meta(ge=-76, le=76)]


class DateType(_Type, tag="date", frozen=True, kw_only=True):
    """Days (32 bits) or milliseconds (64 bits) since 1970-01-01."""

    unit: Literal["day", "ms"]


class TimeType(_Type, tag="time", frozen=True, kw_only=True):
    """Time of day; 32 bits for s and ms, 64 for us and ns."""

    unit: Literal["s", "ms", "us", "ns"]


class TimestampType(_Type, tag="timestamp", frozen=True, kw_only=True):
    """64-bit count of units since 1970-01-01; ``zone`` null is wall time, any zone is an instant."""

    unit: Literal["s", "ms", "us", "ns"]
    zone: str | None


class DurationType(_Type, tag="duration", frozen=True, kw_only=True):
    """64-bit count of units."""

    unit: Literal["s", "ms", "us", "ns"]


class StringType(_Type, tag="string", frozen=True, kw_only=True):
    """UTF-8 text, not normalised."""


class BinaryType(_Type, tag="binary", frozen=True, kw_only=True):
    """Bytes of any length."""


class FixedBinaryType(_Type, tag="fixed-binary", frozen=True, kw_only=True):
    """Exactly ``size`` bytes."""

    size: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class ListType(_Type, tag="list", frozen=True, kw_only=True):
    """List; ``size`` is the fixed number of elements, null where it varies."""

    element: "Slot"
    size: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None


class StructType(_Type, tag="struct", frozen=True, kw_only=True):
    """Named fields in order; at least one."""

    fields: Annotated[tuple["Field", ...], msgspec.Meta(min_length=1)]


class MapType(_Type, tag="map", frozen=True, kw_only=True):
    """Key and value pairs in stored order; keys are never null."""

    key: "Slot"
    value: "Slot"


LogicalType = Union[  # noqa: UP007 (msgspec resolves the forward references of a Union at run time)
    NullType,
    BoolType,
    IntType,
    FloatType,
    DecimalType,
    DateType,
    TimeType,
    TimestampType,
    DurationType,
    StringType,
    BinaryType,
    FixedBinaryType,
    ListType,
    StructType,
    MapType,
]


class Extension(Record, frozen=True, kw_only=True):
    """An extension type: its name and its serialized parameters (hex), over the storage type."""

    name: str
    parameters: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2})*" + END)]


class Slot(Record, frozen=True, kw_only=True):
    """A place for values: of a list's elements, or of a map's keys or values."""

    nullable: bool
    type: LogicalType
    extension: Extension | None = None


class Field(Record, frozen=True, kw_only=True):
    """A named place for values: a column, or a field of a struct."""

    name: str
    nullable: bool
    type: LogicalType
    extension: Extension | None = None


class RecordSchema(Record, tag_field="schema", tag="training.shard.record-schema.v1", frozen=True, kw_only=True):
    """The payload columns in order. Its digest is the release's ``recordSchema``."""

    fields: tuple[Field, ...]

"""The verifier's own reading of Arrow schemas as record schemas. Source: schemas/SPEC.md#record-schema"""

import ctypes
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from shardrel.canonical import json
from shardrel.digest import Digest, Domain, digest_of, domain_hash
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records import schema as rs

MAX_DEPTH = 64
# Of the columns that tell a record's tuple.
RESERVED_PREFIX = "_shardrel_"

_NAME_KEY = b"ARROW:extension:name"
_METADATA_KEY = b"ARROW:extension:metadata"
_UTC = frozenset(["UTC", "Etc/UTC", "+00:00", "Z", "Zulu", "Etc/Zulu", "UCT", "Etc/UCT", "Universal", "Etc/Universal"])
_STRINGS = (pt.is_string, pt.is_large_string, pt.is_string_view)
_BINARIES = (pt.is_binary, pt.is_large_binary, pt.is_binary_view)
_LISTS = (pt.is_list, pt.is_large_list, pt.is_list_view, pt.is_large_list_view)


def record_schema(schema: pa.Schema) -> rs.RecordSchema:
    """Record schema of the columns of an Arrow schema.

    Raises:
        InvalidInputError: ``schema.unsupported-type``, ``schema.duplicate-field``.
    """
    _distinct(schema.names, "column")
    return rs.RecordSchema(fields=tuple(_field(field, 0) for field in schema))


def schema_digest(schema: rs.RecordSchema) -> Digest:
    """Digest of the canonical bytes."""
    return digest_of(json.encode(schema))


def content_type(schema: rs.RecordSchema) -> bytes:
    """The 32 bytes that every record encoding begins with: the schema without its labels."""
    bare = rs.RecordSchema(fields=tuple(_bare_field(field) for field in schema.fields))
    return domain_hash(Domain.TYPE, json.encode(bare))


def is_sound(schema: rs.RecordSchema) -> bool:
    """Whether a record schema that somebody else wrote is one that the columns of a source can give."""
    reserved = any(field.name.startswith(RESERVED_PREFIX) for field in schema.fields)
    return not reserved and _sound_fields(schema.fields, 0)


def _sound_fields(fields: tuple[rs.Field, ...], depth: int) -> bool:
    return len({field.name for field in fields}) == len(fields) and all(_sound(field, depth) for field in fields)


def _sound(place: rs.Field | rs.Slot, depth: int) -> bool:
    inner = depth + 1
    match place.type:
        case rs.NullType():
            return place.nullable
        case rs.TimestampType(zone=str() as zone):
            return zone == "UTC" or bool(zone and zone not in _UTC)
        case rs.ListType(element=element):
            return inner <= MAX_DEPTH and _sound(element, inner)
        case rs.StructType(fields=fields):
            return inner <= MAX_DEPTH and _sound_fields(fields, inner)
        case rs.MapType(key=key, value=value):
            return inner <= MAX_DEPTH and not key.nullable and _sound(key, inner) and _sound(value, inner)
    return True


def _bare_field(field: rs.Field) -> rs.Field:
    return rs.Field(name=field.name, nullable=True, type=_bare_type(field.type), extension=None)


def _bare_slot(slot: rs.Slot) -> rs.Slot:
    return rs.Slot(nullable=True, type=_bare_type(slot.type), extension=None)


def _bare_type(kind: rs.LogicalType) -> rs.LogicalType:
    match kind:
        case rs.TimestampType(unit=unit, zone=str()):
            return rs.TimestampType(unit=unit, zone="UTC")
        case rs.ListType(element=element):
            return rs.ListType(element=_bare_slot(element), size=None)
        case rs.StructType(fields=fields):
            return rs.StructType(fields=tuple(_bare_field(field) for field in fields))
        case rs.MapType(key=key, value=value):
            return rs.MapType(key=_bare_slot(key), value=_bare_slot(value))
    return kind


def _field(field: pa.Field, depth: int) -> rs.Field:
    kind, extension = _place(field, depth)
    return rs.Field(name=field.name, nullable=field.nullable, type=kind, extension=extension)


def _slot(field: pa.Field, depth: int, nullable: bool | None = None) -> rs.Slot:
    kind, extension = _place(field, depth)
    return rs.Slot(nullable=field.nullable if nullable is None else nullable, type=kind, extension=extension)


def _place(field: pa.Field, depth: int) -> tuple[rs.LogicalType, rs.Extension | None]:
    """What the type itself declares counts before what the field's metadata declares."""
    kind = _logical(field.type, field.name, depth)
    declared = exported_metadata(_dressed(field.type)) or field.metadata or {}
    return kind, _extension(declared, field.name)


def _extension(declared: dict[bytes, bytes], name: str) -> rs.Extension | None:
    if _NAME_KEY not in declared:
        return None
    try:
        called = declared[_NAME_KEY].decode()
    except UnicodeDecodeError as err:
        raise _unsupported(name) from err
    return rs.Extension(name=called, parameters=declared.get(_METADATA_KEY, b"").hex())


def _dressed(kind: Any) -> Any:
    """The type that a dictionary or run-end encoding holds, with its extension."""
    while pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        kind = kind.value_type
    return kind


def exported_metadata(kind: Any) -> dict[bytes, bytes]:
    """The declaration of a registered extension type, as other Arrow readers would see it; nothing of any other type.

    pyarrow has no call for the parameters of the types that Arrow itself registers, the C data interface has.
    """
    if not isinstance(kind, pa.BaseExtensionType):
        return {}
    capsule = pa.field("", kind).__arrow_c_schema__()
    pointer = _capsule_pointer(capsule, b"arrow_schema")
    at = ctypes.cast(pointer, ctypes.POINTER(ctypes.c_void_p))[2]  # struct ArrowSchema: format, name, metadata
    if not at:
        return {}
    pairs = ctypes.c_int32.from_address(at).value
    at += 4
    texts = []
    for _ in range(2 * pairs):
        size = ctypes.c_int32.from_address(at).value
        texts.append(ctypes.string_at(at + 4, size))
        at += 4 + size
    return dict(zip(texts[::2], texts[1::2], strict=True))


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _logical(kind: Any, name: str, depth: int) -> rs.LogicalType:
    if isinstance(kind, pa.BaseExtensionType):
        if isinstance(_dressed(kind.storage_type), pa.BaseExtensionType):
            raise _unsupported(name)
        return _logical(kind.storage_type, name, depth)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return _logical(kind.value_type, name, depth)
    for accepts, make in _FLAT:
        if accepts(kind):
            return make(kind, name)
    for accepts, nest in _NESTED:
        if accepts(kind) and depth < MAX_DEPTH:
            return nest(kind, name, depth + 1)
    raise _unsupported(name)


def _any(checks: Iterable[Callable[[Any], bool]]) -> Callable[[Any], bool]:
    return lambda kind: any(check(kind) for check in checks)


def _decimal(kind: Any, name: str) -> rs.LogicalType:
    if abs(kind.scale) > 76:
        raise _unsupported(name)
    return rs.DecimalType(precision=kind.precision, scale=kind.scale)


def _timestamp(kind: Any, name: str) -> rs.LogicalType:
    try:
        zone = kind.tz or None
    except UnicodeDecodeError as err:
        raise _unsupported(name) from err
    return rs.TimestampType(unit=kind.unit, zone="UTC" if zone in _UTC else zone)


def _struct(kind: Any, name: str, depth: int) -> rs.LogicalType:
    fields = [kind.field(number) for number in range(kind.num_fields)]
    if not fields:
        raise _unsupported(name)
    _distinct([field.name for field in fields], "field of a struct")
    return rs.StructType(fields=tuple(_field(field, depth) for field in fields))


def _list(kind: Any, _name: str, depth: int) -> rs.LogicalType:
    return rs.ListType(element=_slot(kind.value_field, depth), size=None)


def _fixed_list(kind: Any, _name: str, depth: int) -> rs.LogicalType:
    return rs.ListType(element=_slot(kind.value_field, depth), size=kind.list_size)


def _map(kind: Any, _name: str, depth: int) -> rs.LogicalType:
    return rs.MapType(key=_slot(kind.key_field, depth, nullable=False), value=_slot(kind.item_field, depth))


_Rule = tuple[Callable[[Any], bool], Callable[[Any, str], rs.LogicalType]]
_FLAT: tuple[_Rule, ...] = (
    (pt.is_null, lambda kind, name: rs.NullType()),
    (pt.is_boolean, lambda kind, name: rs.BoolType()),
    (pt.is_signed_integer, lambda kind, name: rs.IntType(bits=kind.bit_width, signed=True)),
    (pt.is_unsigned_integer, lambda kind, name: rs.IntType(bits=kind.bit_width, signed=False)),
    (pt.is_floating, lambda kind, name: rs.FloatType(bits=kind.bit_width)),
    (pt.is_decimal, _decimal),
    (pt.is_date32, lambda kind, name: rs.DateType(unit="day")),
    (pt.is_date64, lambda kind, name: rs.DateType(unit="ms")),
    (pt.is_time, lambda kind, name: rs.TimeType(unit=kind.unit)),
    (pt.is_timestamp, _timestamp),
    (pt.is_duration, lambda kind, name: rs.DurationType(unit=kind.unit)),
    (_any(_STRINGS), lambda kind, name: rs.StringType()),
    (_any(_BINARIES), lambda kind, name: rs.BinaryType()),
    (pt.is_fixed_size_binary, lambda kind, name: rs.FixedBinaryType(size=kind.byte_width)),
)
_NESTED: tuple[tuple[Callable[[Any], bool], Callable[[Any, str, int], rs.LogicalType]], ...] = (
    (_any(_LISTS), _list),
    (pt.is_fixed_size_list, _fixed_list),
    (pt.is_struct, _struct),
    (pt.is_map, _map),
)


def _distinct(names: list[str], what: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidInputError(ErrorCode.SCHEMA_DUPLICATE_FIELD, f"a {what} occurs twice", field=twice[0])


def _unsupported(name: str) -> InvalidInputError:
    return InvalidInputError(ErrorCode.SCHEMA_UNSUPPORTED, "this type has no canonical encoding", field=name)

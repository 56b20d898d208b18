"""Arrow types as logical types. Source: schemas/SPEC.md#record-schema"""

import ctypes
from typing import Any

import pyarrow as pa
import pyarrow.types as at

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.schema import (
    BinaryType,
    BoolType,
    DateType,
    DecimalType,
    DurationType,
    Extension,
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

MAX_DEPTH = 64

_UTC = frozenset(["UTC", "Etc/UTC", "+00:00", "Z", "Zulu", "Etc/Zulu", "UCT", "Etc/UCT", "Universal", "Etc/Universal"])
_EXTENSION_NAME = b"ARROW:extension:name"
_EXTENSION_PARAMETERS = b"ARROW:extension:metadata"

Place = tuple[bool, LogicalType, Extension | None]


def fields_of(arrow_fields: list[Any], path: str = "", depth: int = 0) -> tuple[Field, ...]:
    """Logical fields of the columns of a schema, or of the fields of a struct.

    Args:
        arrow_fields: ``pa.Field`` values in order.
        path: Dotted path of what holds them, for messages.
        depth: Levels of nesting above them.

    Raises:
        InvalidInputError: ``schema.unsupported-type``, ``schema.duplicate-field`` with the dotted
            path as ``column``; ``input.invalid-utf8`` for a name that is not UTF-8.
    """
    fields: dict[str, Field] = {}
    for arrow_field in arrow_fields:
        name = _name_of(arrow_field)
        here = f"{path}.{name}" if path else name
        if name in fields:
            raise InvalidInputError(
                ErrorCode.SCHEMA_DUPLICATE_FIELD, f"two fields are named {here!r}: rename one of them", column=here
            )
        nullable, logical, extension = place(arrow_field, here, depth)
        fields[name] = Field(name=name, nullable=nullable, type=logical, extension=extension)
    return tuple(fields.values())


def place(arrow_field: Any, path: str, depth: int) -> Place:
    """Nullability, logical type and extension of one Arrow field.

    A type that is registered as an extension declares it; else the field's metadata may, as a
    reader without the registration sees it.
    """
    logical, extension = _logical(arrow_field.type, path, depth)
    return arrow_field.nullable, logical, extension or _declared(arrow_field, path)


def _name_of(arrow_field: Any) -> str:
    try:
        return str(arrow_field.name)
    except UnicodeDecodeError as err:
        raise InvalidInputError(ErrorCode.INPUT_UTF8, "the name of a column is not valid UTF-8") from err


def _logical(arrow: Any, path: str, depth: int) -> tuple[LogicalType, Extension | None]:
    """Logical type of an Arrow type, and the extension that the type itself declares."""
    if depth > MAX_DEPTH:
        raise _unsupported(path, f"more than {MAX_DEPTH} levels of nesting")
    if isinstance(arrow, pa.BaseExtensionType):
        return _extension(arrow, path, depth)
    if at.is_dictionary(arrow) or at.is_run_end_encoded(arrow):
        return _logical(arrow.value_type, path, depth)
    logical = _scalar(arrow) or _temporal(arrow, path) or _nested(arrow, path, depth + 1)
    if logical is None:
        raise _unsupported(path, f"the type {arrow}")
    return logical, None


def _extension(arrow: Any, path: str, depth: int) -> tuple[LogicalType, Extension]:
    storage, inner = _logical(arrow.storage_type, path, depth)
    if inner is not None:
        raise _unsupported(path, "an extension type over another extension type")
    metadata = _exported_metadata(pa.field("", arrow))
    return storage, Extension(name=arrow.extension_name, parameters=metadata.get(_EXTENSION_PARAMETERS, b"").hex())


def _declared(arrow_field: Any, path: str) -> Extension | None:
    metadata = arrow_field.metadata or {}
    name = metadata.get(_EXTENSION_NAME)
    if name is None:
        return None
    try:
        return Extension(name=name.decode("utf-8"), parameters=metadata.get(_EXTENSION_PARAMETERS, b"").hex())
    except UnicodeDecodeError as err:
        raise _unsupported(path, "an extension name that is not UTF-8") from err


def _scalar(arrow: Any) -> LogicalType | None:
    if at.is_null(arrow):
        return NullType()
    if at.is_boolean(arrow):
        return BoolType()
    if at.is_integer(arrow):
        return IntType(bits=arrow.bit_width, signed=at.is_signed_integer(arrow))
    if at.is_floating(arrow):
        return FloatType(bits=arrow.bit_width)
    if at.is_decimal(arrow) and -76 <= arrow.scale <= 76:
        return DecimalType(precision=arrow.precision, scale=arrow.scale)
    if at.is_string(arrow) or at.is_large_string(arrow) or at.is_string_view(arrow):
        return StringType()
    if at.is_fixed_size_binary(arrow):
        return FixedBinaryType(size=arrow.byte_width)
    if at.is_binary(arrow) or at.is_large_binary(arrow) or at.is_binary_view(arrow):
        return BinaryType()
    return None


def _temporal(arrow: Any, path: str) -> LogicalType | None:
    if at.is_date32(arrow):
        return DateType(unit="day")
    if at.is_date64(arrow):
        return DateType(unit="ms")
    if at.is_time(arrow):
        return TimeType(unit=arrow.unit)
    if at.is_timestamp(arrow):
        return TimestampType(unit=arrow.unit, zone=_zone(arrow, path))
    if at.is_duration(arrow):
        return DurationType(unit=arrow.unit)
    return None


def _zone(arrow: Any, path: str) -> str | None:
    try:
        return "UTC" if arrow.tz in _UTC else arrow.tz
    except UnicodeDecodeError as err:
        raise _unsupported(path, "a time zone that is not UTF-8") from err


def _nested(arrow: Any, path: str, depth: int) -> LogicalType | None:
    if at.is_fixed_size_list(arrow):
        return ListType(element=_slot(arrow.value_field, f"{path}[]", depth), size=arrow.list_size)
    if at.is_list(arrow) or at.is_large_list(arrow) or at.is_list_view(arrow) or at.is_large_list_view(arrow):
        return ListType(element=_slot(arrow.value_field, f"{path}[]", depth), size=None)
    if at.is_struct(arrow):
        if arrow.num_fields == 0:
            raise _unsupported(path, "a struct without fields")
        return StructType(fields=fields_of([arrow.field(i) for i in range(arrow.num_fields)], path, depth))
    if at.is_map(arrow):
        _, logical, extension = place(arrow.key_field, f"{path}.key", depth)
        key = Slot(nullable=False, type=logical, extension=extension)
        return MapType(key=key, value=_slot(arrow.item_field, f"{path}.value", depth))
    return None


def _slot(arrow_field: Any, path: str, depth: int) -> Slot:
    nullable, logical, extension = place(arrow_field, path, depth)
    return Slot(nullable=nullable, type=logical, extension=extension)


def _unsupported(path: str, what: str) -> InvalidInputError:
    return InvalidInputError(
        ErrorCode.SCHEMA_UNSUPPORTED, f"column {path!r}: {what} is not supported; cast or drop it", column=path
    )


class _ArrowSchema(ctypes.Structure):
    """The head of the C data interface's ArrowSchema, a stable ABI."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _exported_metadata(arrow_field: Any) -> dict[bytes, bytes]:
    """Metadata of a field as Arrow hands it to other programs.

    pyarrow shows the serialized parameters of its built-in extension types nowhere else.
    """
    capsule = arrow_field.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = _ArrowSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    if not address:
        return {}
    strings: list[bytes] = []
    count = ctypes.c_int32.from_address(address).value
    address += 4
    for _ in range(2 * count):
        size = ctypes.c_int32.from_address(address).value
        strings.append(ctypes.string_at(address + 4, size))
        address += 4 + size
    return dict(zip(strings[::2], strings[1::2], strict=True))

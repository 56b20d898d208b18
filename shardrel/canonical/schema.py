"""Record schemas: from Arrow, unified over files, and their digests. Source: schemas/SPEC.md#record-schema"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from shardrel.canonical import json
from shardrel.canonical.arrow_types import fields_of
from shardrel.canonical.physical import logical_arrow_type, physical_schema, to_physical
from shardrel.digest import Digest, Domain, digest_of, domain_hash
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.schema import Field, ListType, LogicalType, MapType, RecordSchema, Slot, StructType, TimestampType

__all__ = [
    "content_type",
    "logical_arrow_type",
    "physical_schema",
    "record_schema",
    "schema_digest",
    "to_physical",
    "unify",
]

Place = TypeVar("Place", Field, Slot)


def record_schema(schema: Any) -> RecordSchema:
    """The columns of an Arrow schema by logical type.

    Args:
        schema: ``pa.Schema`` as a source has it, in any physical clothing.

    Raises:
        InvalidInputError: ``schema.unsupported-type`` or ``schema.duplicate-field``, with the
            dotted path of the field as ``column``.

    Source: schemas/SPEC.md#record-schema
    """
    return RecordSchema(fields=fields_of(list(schema)))


def schema_digest(schema: RecordSchema) -> Digest:
    """Digest of the schema's canonical bytes."""
    return digest_of(json.encode(schema))


def content_type(schema: RecordSchema) -> bytes:
    """32 bytes that bind what a record's bytes depend on, and no label that leaves values alone.

    Source: schemas/SPEC.md#record-schema
    """
    bare = RecordSchema(fields=tuple(_bare(field) for field in schema.fields))
    return domain_hash(Domain.TYPE, json.encode(bare))


def unify(schemas: Sequence[RecordSchema]) -> RecordSchema:
    """The one schema of several files: a column is nullable if it is in any of them.

    Raises:
        InvalidInputError: ``schema.conflict`` naming the ``column`` where anything else differs.
    """
    first, *others = schemas
    fields = first.fields
    for other in others:
        fields = _unify_fields(fields, other.fields, "")
    return RecordSchema(fields=fields)


def _bare(place: Place) -> Place:
    return msgspec.structs.replace(place, nullable=True, extension=None, type=_bare_type(place.type))


def _bare_type(logical: LogicalType) -> LogicalType:
    if isinstance(logical, TimestampType) and logical.zone is not None:
        return TimestampType(unit=logical.unit, zone="UTC")
    if isinstance(logical, ListType):
        return ListType(element=_bare(logical.element), size=None)
    if isinstance(logical, StructType):
        return StructType(fields=tuple(_bare(field) for field in logical.fields))
    if isinstance(logical, MapType):
        return MapType(key=_bare(logical.key), value=_bare(logical.value))
    return logical


def _unify_fields(left: tuple[Field, ...], right: tuple[Field, ...], path: str) -> tuple[Field, ...]:
    for index in range(max(len(left), len(right))):
        ours = left[index].name if index < len(left) else None
        theirs = right[index].name if index < len(right) else None
        if ours != theirs:
            raise _conflict(f"{path}{theirs if ours is None else ours}")
    return tuple(_unify_place(a, b, f"{path}{a.name}") for a, b in zip(left, right, strict=True))


def _unify_place(left: Place, right: Place, path: str) -> Place:
    if left.extension != right.extension:
        raise _conflict(path)
    logical = _unify_type(left.type, right.type, path)
    return msgspec.structs.replace(left, nullable=left.nullable or right.nullable, type=logical)


def _unify_type(left: LogicalType, right: LogicalType, path: str) -> LogicalType:
    if left == right:
        return left
    if isinstance(left, ListType) and isinstance(right, ListType) and left.size == right.size:
        return ListType(element=_unify_place(left.element, right.element, f"{path}[]"), size=left.size)
    if isinstance(left, StructType) and isinstance(right, StructType):
        return StructType(fields=_unify_fields(left.fields, right.fields, f"{path}."))
    if isinstance(left, MapType) and isinstance(right, MapType):
        key = _unify_place(left.key, right.key, f"{path}.key")
        return MapType(key=key, value=_unify_place(left.value, right.value, f"{path}.value"))
    raise _conflict(path)


def _conflict(column: str) -> InvalidInputError:
    return InvalidInputError(
        ErrorCode.SCHEMA_CONFLICT,
        f"the files do not agree on column {column!r}: give all of them one schema",
        column=column,
    )

"""Which columns of a source are tuple fields, and which are its records' payload.

Source: schemas/SPEC.md#snapshot
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from publisher.tuple_fields import check_field_type, check_token_type
from shardrel.canonical.schema import record_schema
from shardrel.errors import ErrorCode, InvalidInputError, no_such_column
from shardrel.membership.columns import RESERVED_PREFIX
from shardrel.records.schema import Field, RecordSchema, StringType
from shardrel.records.snapshot import Columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """How a source's columns are used.

    Attributes:
        columns: Columns that become tuple fields; null where a default rule applies.
        token_column: Payload column that tells the tokens of a record.
        text_columns: Payload columns that benchmarks are screened in; None means every string column.
    """

    columns: Columns
    token_column: str | None
    text_columns: tuple[str, ...] | None

    @property
    def mapped(self) -> frozenset[str]:
        """Columns that are no payload."""
        named = (self.columns.id, self.columns.source, self.columns.version, self.columns.split)
        return frozenset(name for name in named if name is not None)


def no_columns() -> Columns:
    """Every tuple field by its default rule."""
    return Columns(id=None, source=None, version=None, split=None)


def payload_schema(schema: Any, mapping: Mapping) -> RecordSchema:
    """Record schema of one file's payload, with every column that the mapping names looked at.

    Raises:
        InvalidInputError: ``input.reserved-column``, ``input.no-such-column``, ``input.column-type``,
            ``input.no-payload``, ``schema.unsupported-type``, ``schema.duplicate-field``.
    """
    for name in schema.names:
        if name.startswith(RESERVED_PREFIX):
            raise InvalidInputError(
                ErrorCode.INPUT_RESERVED_COLUMN,
                f"column {name!r} has a name that shards reserve; rename it",
                column=name,
            )
    for name in sorted(mapping.mapped):
        check_field_type(_column(schema, name).type, name)
    payload = record_schema(pa.schema([field for field in schema if field.name not in mapping.mapped]))
    if not payload.fields:
        raise InvalidInputError(
            ErrorCode.INPUT_NO_PAYLOAD, "every column became a tuple field; none is left as payload"
        )
    _check_payload_columns(schema, payload, mapping)
    return payload


def _check_payload_columns(schema: Any, payload: RecordSchema, mapping: Mapping) -> None:
    fields = {field.name: field for field in payload.fields}
    if mapping.token_column is not None:
        _payload_field(fields, mapping.token_column)
        check_token_type(_column(schema, mapping.token_column).type, mapping.token_column)
    for name in mapping.text_columns or ():
        if not isinstance(_payload_field(fields, name).type, StringType):
            raise InvalidInputError(ErrorCode.INPUT_COLUMN_TYPE, f"text column {name!r} is not text", column=name)


def _payload_field(fields: dict[str, Field], name: str) -> Field:
    field = fields.get(name)
    if field is None:
        raise no_such_column("the payload", name, list(fields))
    return field


def _column(schema: Any, name: str) -> Any:
    index = schema.get_field_index(name)
    if index < 0:
        raise no_such_column("the source", name, schema.names)
    return schema.field(index)

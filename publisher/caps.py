"""What a shard may have at most, so that any verifier reads it. Source: schemas/SPEC.md#root-manifest"""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow.compute as pc

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.schema import Field, ListType, MapType, RecordSchema, Slot, StructType

MAX_STORED = 2 << 30
MAX_LOGICAL = 4 << 30
MAX_RECORDS = 1 << 24
MAX_IDS = 1 << 30
# So much of a row group keeps its pages, one of each column, within what a verifier takes into memory.
MAX_GROUP = 1 << 30
# Of a Parquet schema, its root and its leaf being one each. Common readers refuse to open a file with more.
MAX_LEVELS = 100


def within(name: str, value: int, most: int, advice: str = "publish with more shards") -> None:
    """Refuse what passes a cap.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    if value > most:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID, f"a shard would have {value} {name}, at most are {most}: {advice}"
        )


def groups_within(groups: Iterable[Any]) -> Iterator[Any]:
    """The row groups of a shard, each within its cap, and their sample ids, in the first column, within theirs.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    total = 0
    for group in groups:
        total += pc.sum(pc.binary_length(group.column(0))).as_py() or 0
        within("bytes of sample ids", total, MAX_IDS)
        within("bytes in a row group", group.nbytes, MAX_GROUP, "publish with more shards, or cut the records")
        yield group


def nesting_within(schema: RecordSchema) -> None:
    """Every column is nested no deeper than readers of Parquet go.

    Raises:
        InvalidInputError: ``schema.unsupported-type``, with the column.
    """
    for field in schema.fields:
        if 1 + _levels(field) > MAX_LEVELS:
            raise InvalidInputError(
                ErrorCode.SCHEMA_UNSUPPORTED,
                f"a column is nested deeper than the {MAX_LEVELS} levels that readers of Parquet go",
                column=field.name,
            )


def _levels(place: Field | Slot) -> int:
    """Levels of a Parquet schema: Parquet writes a list, and a map, as two groups."""
    match place.type:
        case ListType(element=element):
            return 2 + _levels(element)
        case MapType(key=key, value=value):
            return 2 + max(_levels(key), _levels(value))
        case StructType(fields=fields):
            return 1 + max(_levels(field) for field in fields)
    return 1

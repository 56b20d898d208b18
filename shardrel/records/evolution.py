"""Schema evolution: how the record schema of a release differs from that of a named earlier one.

Source: schemas/SPEC.md#schema-evolution
"""

from typing import Annotated, Literal

import msgspec

from shardrel.records.fields import DigestField, Record

EVOLUTION_PREDICATE = "https://shardrel.dev/schema-evolution/v1"
MAX_CHANGES = 10_000

ChangeKind = Literal[
    "added", "removed", "renamed", "reordered", "widened", "narrowed", "loosened", "tightened", "changed"
]

Path = tuple[str, ...]
"""Names from a column down: of fields, ``element`` of a list, ``key`` and ``value`` of a map."""

PathField = Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=256)]


class Rename(Record, frozen=True, kw_only=True):
    """A declared new name: the field at ``path`` of the previous schema is called ``to`` now, in the same place."""

    path: PathField
    to: str


class Change(Record, frozen=True, kw_only=True):
    """One difference.

    Attributes:
        path: Place in this release's schema; of a removed field, in the previous one. Empty for the order of columns.
        was, now: Types in words where these are the difference; the names of a renamed field.
    """

    kind: ChangeKind
    path: Annotated[tuple[str, ...], msgspec.Meta(max_length=256)]
    was: str | None
    now: str | None


class SchemaEvolution(Record, tag_field="schema", tag="training.shard.schema-evolution.v1", frozen=True, kw_only=True):
    """All differences between two record schemas; no ``changes`` where they are equal.

    Attributes:
        previous: Root of the release that was compared with; somebody named it.
        previous_schema, record_schema: Digests of both record schemas.
        renames: As they were declared, sorted by path.
    """

    previous: DigestField
    previous_schema: DigestField
    record_schema: DigestField
    renames: tuple[Rename, ...]
    changes: Annotated[tuple[Change, ...], msgspec.Meta(max_length=MAX_CHANGES)]

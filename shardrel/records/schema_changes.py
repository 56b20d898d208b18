"""Every difference between two record schemas, at every depth. Pure. Source: schemas/SPEC.md#schema-evolution"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.evolution import MAX_CHANGES, Change, ChangeKind, Path, Rename, SchemaEvolution
from shardrel.records.schema import Field, ListType, LogicalType, MapType, RecordSchema, Slot, StructType
from shardrel.records.schema_types import holds, in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two releases: its record schema and the digest of that."""

    digest: str
    schema: RecordSchema


def evolution(previous: str, old: Side, new: Side, renames: Iterable[Rename]) -> SchemaEvolution:
    """The report about a release whose record schema is ``new``, against the release ``previous``.

    Raises:
        InvalidInputError: ``input.schema-rename`` for a rename that fits nowhere; ``input.invalid`` for more than
            10,000 differences.
    """
    declared = tuple(sorted(renames, key=lambda rename: rename.path))
    changes = tuple(compare(old.schema, new.schema, declared))
    if len(changes) > MAX_CHANGES:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID, "two schemas with so many differences are not compared", changes=len(changes)
        )
    return SchemaEvolution(
        previous=previous, previous_schema=old.digest, record_schema=new.digest, renames=declared, changes=changes
    )


def compare(old: RecordSchema, new: RecordSchema, renames: Sequence[Rename] = ()) -> list[Change]:
    """All differences, in the order of a walk; none exactly when the schemas are equal.

    Raises:
        InvalidInputError: ``input.schema-rename``.
    """
    names = _Names({rename.path: rename.to for rename in renames})
    if len(names.declared) != len(renames):
        raise _unfit("a field is renamed twice", renames)
    changes = list(_fields((), (), old.fields, new.fields, names))
    unused = names.declared.keys() - names.used
    if unused:
        raise _unfit("a rename needs a field of the previous schema and its new name beside it", sorted(unused))
    return changes


def _unfit(message: str, about: Sequence[object]) -> InvalidInputError:
    return InvalidInputError(ErrorCode.INPUT_RENAME, message, renames=len(about))


@dataclass(slots=True)
class _Names:
    """Declared new names by old path, and which of them were met."""

    declared: dict[Path, str]
    used: set[Path] = field(default_factory=set)

    def matches(self, at: Path, old: Sequence[Field], new: Sequence[Field]) -> dict[str, Field]:
        """Old name to new field, of the fields of one place that are in both schemas."""
        there = {one.name: one for one in new}
        moved = {one.name: self.declared[path] for one in old if (path := (*at, one.name)) in self.declared}
        targets = set(moved.values())
        if len(targets) < len(moved):
            raise _unfit("two fields get one name", list(moved))
        found: dict[str, Field] = {}
        for name in (one.name for one in old):
            to = moved.get(name, name)
            if name in moved and (to == name or to not in there):
                continue
            if to in there and (name in moved or to not in targets):
                found[name] = there[to]
                self.used.update({(*at, name)} & self.declared.keys())
        return found


def _fields(was: Path, now: Path, old: Sequence[Field], new: Sequence[Field], names: _Names) -> Iterator[Change]:
    """Differences of the columns, or of the fields of one struct at ``was`` before and ``now`` since."""
    found = names.matches(was, old, new)
    places = {one.name: place for place, one in enumerate(new)}
    if any(a > b for a, b in pairwise(places[found[one.name].name] for one in old if one.name in found)):
        yield _change("reordered", now)
    for one in old:
        other = found.get(one.name)
        if other is None:
            yield _change("removed", (*was, one.name), was=in_words(one))
            continue
        here = (*now, other.name)
        if one.name != other.name:
            yield _change("renamed", here, was=one.name, now=other.name)
        yield from _place((*was, one.name), here, one, other, names)
    kept = {other.name for other in found.values()}
    for other in new:
        if other.name not in kept:
            yield _change("added", (*now, other.name), now=in_words(other))


def _place(was: Path, now: Path, old: Slot | Field, new: Slot | Field, names: _Names) -> Iterator[Change]:
    """Differences of one place that is in both schemas, and of what is inside of it."""
    if old.nullable != new.nullable:
        yield _change("loosened" if new.nullable else "tightened", now)
    kind = _kind(old, new)
    if kind is not None:
        yield _change(kind, now, was=in_words(old), now=in_words(new))
    match old.type, new.type:
        case StructType(fields=before), StructType(fields=after):
            yield from _fields(was, now, before, after, names)
        case ListType(element=before), ListType(element=after):
            yield from _place((*was, "element"), (*now, "element"), before, after, names)
        case MapType() as before, MapType() as after:
            yield from _place((*was, "key"), (*now, "key"), before.key, after.key, names)
            yield from _place((*was, "value"), (*now, "value"), before.value, after.value, names)


def _kind(old: Slot | Field, new: Slot | Field) -> ChangeKind | None:
    """How the types differ, without what is inside of them."""
    if old.extension != new.extension:
        return "changed"
    if _same_outside(old.type, new.type):
        return None
    if holds(new.type, old.type):
        return "widened"
    return "narrowed" if holds(old.type, new.type) else "changed"


def _same_outside(old: LogicalType, new: LogicalType) -> bool:
    match old, new:
        case (StructType(), StructType()) | (MapType(), MapType()):
            return True
        case ListType(), ListType():
            return old.size == new.size
        case _:
            return old == new


def _change(kind: ChangeKind, path: Path, *, was: str | None = None, now: str | None = None) -> Change:
    return Change(kind=kind, path=path, was=was, now=now)

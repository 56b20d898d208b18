"""The verifier's own comparison of two record schemas: flat lists of places, put in order at the end.

Source: schemas/SPEC.md#schema-evolution
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shardrel.records.evolution import Change, ChangeKind, Rename
from shardrel.records.schema import Field, ListType, MapType, RecordSchema, Slot, StructType
from verifier.extents import extent, words

Path = tuple[str, ...]
Order = tuple[int, ...]

# Where a change stands before what is inside of its place, and what was added behind all old fields.
_GONE, _RENAMED, _NULL, _TYPE, _MOVED, _ADDED = -5, -4, -3, -2, -1, 1 << 31


class RenameError(Exception):
    """A declared rename fits nowhere."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One place of a schema.

    Attributes:
        order: Its position among its siblings, and theirs above it.
        named: Whether it is a column or the field of a struct.
    """

    path: Path
    order: Order
    slot: Slot | Field
    named: bool


_Places = Mapping[Path, _Place]
_Found = tuple[Order, Change]


def changes_between(old: RecordSchema, new: RecordSchema, renames: Sequence[Rename]) -> tuple[Change, ...]:
    """All differences, in the order of the SPEC.

    Raises:
        RenameError: A rename fits nowhere.
    """
    before, after = ({place.path: place for place in _places(schema)} for schema in (old, new))
    moved = _moved(before, after, renames)
    found = [*_changed(before, after, moved), *_added(before, after, moved)]
    return tuple(change for _, change in sorted(found, key=lambda one: one[0]))


def _places(schema: RecordSchema) -> Iterator[_Place]:
    """Every place, outer ones first."""
    waiting = deque(_Place((one.name,), (at,), one, True) for at, one in enumerate(schema.fields))
    while waiting:
        place = waiting.popleft()
        yield place
        waiting.extend(
            _Place((*place.path, name), (*place.order, at), slot, isinstance(place.slot.type, StructType))
            for at, (name, slot) in enumerate(_inside(place.slot))
        )


def _inside(slot: Slot | Field) -> list[tuple[str, Slot | Field]]:
    match slot.type:
        case StructType(fields=fields):
            return [(one.name, one) for one in fields]
        case ListType(element=element):
            return [("element", element)]
        case MapType(key=key, value=value):
            return [("key", key), ("value", value)]
        case _:
            return []


def _moved(before: _Places, after: _Places, renames: Sequence[Rename]) -> dict[Path, Path]:
    """Old path to new path, of every place that is in both schemas; what is around them is at the empty path."""
    declared = {one.path: one.to for one in renames}
    claimed = {(path[:-1], name) for path, name in declared.items()}
    moved: dict[Path, Path] = {(): ()}
    for path, place in before.items():
        if not _entered(before, after, moved, path):
            continue
        name = declared.get(path) if place.named else path[-1]
        if name is None and (path[:-1], path[-1]) not in claimed:
            name = path[-1]
        if name is not None and (*moved[path[:-1]], name) in after:
            moved[path] = (*moved[path[:-1]], name)
    renamed = [path for path, name in declared.items() if moved.get(path, path)[-1] == name != path[-1]]
    if not len(renames) == len(declared) == len(claimed) == len(renamed):
        raise RenameError
    return moved


def _entered(before: _Places, after: _Places, moved: Mapping[Path, Path], path: Path) -> bool:
    """Whether what is around a place of the old schema is in both, as the same kind of container."""
    around = path[:-1]
    if around not in moved:
        return False
    return not around or type(before[around].slot.type) is type(after[moved[around]].slot.type)


def _changed(before: _Places, after: _Places, moved: Mapping[Path, Path]) -> Iterator[_Found]:
    """What is different about the places of the old schema, and about their order."""
    orders: dict[Path, list[int]] = {}
    for path, place in before.items():
        if path in moved:
            here = after[moved[path]]
            orders.setdefault(path[:-1], []).append(here.order[-1])
            yield from _differences(place, here)
        elif _entered(before, after, moved, path):
            yield (*place.order, _GONE), Change(kind="removed", path=path, was=words(place.slot), now=None)
    for around, order in orders.items():
        if order != sorted(order):
            at = before[around].order if around else ()
            yield (*at, _MOVED), Change(kind="reordered", path=moved[around], was=None, now=None)


def _differences(place: _Place, here: _Place) -> Iterator[_Found]:
    old, new = place.slot, here.slot
    if place.path[-1] != here.path[-1]:
        names = Change(kind="renamed", path=here.path, was=place.path[-1], now=here.path[-1])
        yield (*place.order, _RENAMED), names
    if old.nullable is not new.nullable:
        kind: ChangeKind = "loosened" if new.nullable else "tightened"
        yield (*place.order, _NULL), Change(kind=kind, path=here.path, was=None, now=None)
    was, now = extent(old.type), extent(new.type)
    if was != now or old.extension != new.extension:
        kind = "changed"
        if old.extension == new.extension and was.within(now):
            kind = "widened"
        elif old.extension == new.extension and now.within(was):
            kind = "narrowed"
        yield (*place.order, _TYPE), Change(kind=kind, path=here.path, was=words(old), now=words(new))


def _added(before: _Places, after: _Places, moved: Mapping[Path, Path]) -> Iterator[_Found]:
    """The places of the new schema that no old one became, in containers that are in both."""
    origin = {new: old for old, new in moved.items()}
    for path, place in after.items():
        around = origin.get(path[:-1])
        if path in origin or around is None:
            continue
        if not around or type(before[around].slot.type) is type(after[path[:-1]].slot.type):
            at = before[around].order if around else ()
            added = Change(kind="added", path=path, was=None, now=words(place.slot))
            yield (*at, _ADDED + place.order[-1]), added

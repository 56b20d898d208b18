"""The comparison of record schemas, over generated pairs: nothing is left out, nothing is made up."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shardrel.canonical import json
from shardrel.errors import InvalidInputError
from shardrel.records.evolution import Change, Rename
from shardrel.records.schema import ListType, MapType, RecordSchema, StructType
from shardrel.records.schema_changes import compare
from tests.support.schemas import NAMES, SCHEMAS, Edit, Place, edited, places
from verifier.schema_changes import RenameError, changes_between

FEW = settings(deadline=None, max_examples=50)
MIRROR = {
    "added": "removed", "removed": "added", "widened": "narrowed", "narrowed": "widened",
    "loosened": "tightened", "tightened": "loosened",
}  # fmt: skip
PAIRS = st.one_of(SCHEMAS.flatmap(lambda one: st.tuples(st.just(one), edited(one))), st.tuples(SCHEMAS, SCHEMAS))


def outside(place: Place) -> Any:
    """A place without what is inside of it, and without its nullability."""
    kind = place.type
    if isinstance(kind, StructType | MapType):
        return type(kind), place.extension
    return (ListType, kind.size, place.extension) if isinstance(kind, ListType) else (kind, place.extension)


def expected(old: RecordSchema, new: RecordSchema) -> Counter[tuple[str, tuple[str, ...]]]:
    """The slow way: both as flat lists of places; the kinds of a change of type are all ``typed``."""
    before, after = places(old), places(new)

    def met(path: tuple[str, ...]) -> bool:
        """Whether every place above is in both, as the same kind of container."""
        above = [path[:end] for end in range(1, len(path))]
        return all(p in before and p in after and type(before[p].type) is type(after[p].type) for p in above)

    found: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for path in before.keys() | after.keys():
        if not met(path):
            continue
        if path not in after or path not in before:
            found["removed" if path in before else "added", path] += 1
            continue
        one, other = before[path], after[path]
        if one.nullable != other.nullable:
            found["loosened" if other.nullable else "tightened", path] += 1
        if outside(one) != outside(other):
            found["typed", path] += 1
    for path in [(), *(p for p in before if isinstance(before[p].type, StructType))]:
        if path == () or (met((*path, "x")) and path in after):
            orders = [[p for p in side if p[:-1] == path and p in before and p in after] for side in (before, after)]
            if orders[0] != orders[1]:
                found["reordered", path] += 1
    return found


@FEW
@given(PAIRS)
def test_every_difference_is_reported_once_and_no_other(pair: tuple[RecordSchema, RecordSchema]) -> None:
    old, new = pair
    kinds = {"widened": "typed", "narrowed": "typed", "changed": "typed"}
    assert Counter((kinds.get(c.kind, c.kind), c.path) for c in compare(old, new)) == expected(old, new)


@FEW
@given(PAIRS)
def test_no_change_means_equal_schemas(pair: tuple[RecordSchema, RecordSchema]) -> None:
    old, new = pair
    assert compare(new, new) == []
    assert (compare(old, new) == []) == (json.encode(old) == json.encode(new))


@FEW
@given(PAIRS)
def test_the_way_back_is_the_mirror_image(pair: tuple[RecordSchema, RecordSchema]) -> None:
    old, new = pair
    forth = Counter((MIRROR.get(c.kind, c.kind), c.path, c.now, c.was) for c in compare(old, new))
    assert forth == Counter((c.kind, c.path, c.was, c.now) for c in compare(new, old))


def fits(old: RecordSchema, new: RecordSchema, rename: Rename) -> bool:
    try:
        compare(old, new, [rename])
    except InvalidInputError:
        return False
    return True


@st.composite
def with_renames(draw: st.DrawFn) -> tuple[RecordSchema, RecordSchema, list[Rename]]:
    """Two schemas and renames, of which many fit."""
    old, new = draw(PAIRS)
    names: dict[tuple[str, ...], list[str]] = {}
    for path in places(new):
        names.setdefault(path[:-1], []).append(path[-1])
    fitting = [Rename(path=path, to=to) for path in places(old) for to in names.get(path[:-1], []) if to != path[-1]]
    wrong = st.builds(Rename, path=st.sampled_from(sorted(places(old))), to=st.sampled_from(NAMES))
    fitting = [one for one in fitting if fits(old, new, one)]
    if not fitting or draw(st.integers(0, 9)) == 0:
        fitting.append(draw(wrong))
    one = st.sampled_from(fitting)
    return old, new, draw(st.lists(one, max_size=3, unique_by=lambda rename: (rename.path[:-1], rename.to)))


def agree(case: tuple[RecordSchema, RecordSchema, list[Rename]]) -> None:
    """Publisher and verifier say the same of two schemas, or both refuse."""
    old, new, renames = case
    theirs: list[Change] | None
    try:
        theirs = list(changes_between(old, new, renames))
    except RenameError:
        theirs = None
    try:
        assert compare(old, new, renames) == theirs
    except InvalidInputError:
        assert theirs is None


@settings(deadline=None, max_examples=100)
@given(with_renames())
def test_publisher_and_verifier_agree(case: tuple[RecordSchema, RecordSchema, list[Rename]]) -> None:
    agree(case)


@pytest.mark.slow
@settings(deadline=None, max_examples=3000)
@given(with_renames())
def test_publisher_and_verifier_agree_for_long(case: tuple[RecordSchema, RecordSchema, list[Rename]]) -> None:
    agree(case)


@FEW
@given(PAIRS, st.data())
def test_a_declared_rename_stands_for_nothing_but_itself(
    pair: tuple[RecordSchema, RecordSchema], data: st.DataObject
) -> None:
    old, new = pair
    before, after = places(old), places(new)
    plain = compare(old, new)
    gone = {c.path for c in plain if c.kind in ("added", "removed")}
    structs = [
        p for p in before
        if p in after and (len(p) == 1 or isinstance(before[p[:-1]].type, StructType))
        and all(type(before[p[:n]].type) is type(after[p[:n]].type) for n in range(1, len(p)))
        and not any(p[:n] in gone for n in range(1, len(p) + 1))
    ]  # fmt: skip
    assume(structs)
    path = data.draw(st.sampled_from(sorted(structs)))

    def called(fields: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(replace(one, name="fresh") if one.name == path[-1] else one for one in fields)

    renamed = Edit(path[:-1], called).on(new)
    moved = (*path[:-1], "fresh")
    there = [
        moved + c.path[len(path) :] if c.path[: len(path)] == path and c.kind != "removed" else c.path for c in plain
    ]
    wanted = [replace(c, path=at) for c, at in zip(plain, there, strict=True)]
    wanted.append(Change(kind="renamed", path=moved, was=path[-1], now="fresh"))
    found = compare(old, renamed, [Rename(path=path, to="fresh")])
    assert Counter(map(str, found)) == Counter(map(str, wanted))

"""What changed between two releases, member by member. Source: schemas/SPEC.md#snapshot, #member-index

A release holds the members that its member index names; what they are stands in its snapshot. Both are sorted, so
everything is one pass in bounded memory. It says what two roots declare: verify them to know that it is so.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shardrel.data.aligned import KEY, aligned
from shardrel.data.reading import Reading
from shardrel.errors import ErrorCode, IntegrityError
from shardrel.records.release import Release
from shardrel.records.snapshot import MemberIndex, Snapshot
from shardrel.store.objects import get_record
from shardrel.store.port import Store

FIELDS = {
    "content": "content_digest", "source": "source_id", "version": "source_version", "split": "split",
}  # fmt: skip
_COLUMNS = [KEY, *FIELDS.values()]
_SHAPE = pa.schema([(name, pa.binary(32) if name == FIELDS["content"] else pa.string()) for name in _COLUMNS])


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The differences in one range of sample ids, in their order.

    Attributes:
        added, removed: Members that are in one release alone, as tables of tuple fields.
        changed: Members whose tuples differ, as they are now.
        before: The same members as they were.
        fields: Which of them differ in which field, by the names of ``FIELDS``: boolean arrays.
        unchanged: How many members are equal.
    """

    added: Any
    removed: Any
    changed: Any
    before: Any
    fields: dict[str, Any]
    unchanged: int


@dataclass(slots=True, kw_only=True)
class SplitDifference:
    """Differences of one split; a member that went to another one counts as changed in both."""

    added: int = 0
    removed: int = 0
    changed: int = 0


@dataclass(slots=True, kw_only=True)
class Difference:
    """All differences, counted."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    unchanged: int = 0
    fields: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FIELDS, 0))
    splits: dict[str, SplitDifference] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        """Count a range."""
        self.added += step.added.num_rows
        self.removed += step.removed.num_rows
        self.changed += step.changed.num_rows
        self.unchanged += step.unchanged
        for name, differs in step.fields.items():
            self.fields[name] += pc.sum(differs).as_py() or 0
        for split, count in _counts(step.added):
            self._split(split).added += count
        for split, count in _counts(step.removed):
            self._split(split).removed += count
        for split, count in _counts(step.changed):
            self._split(split).changed += count
        for split, count in _counts(step.before.filter(step.fields["split"])):
            self._split(split).changed += count

    def _split(self, name: str) -> SplitDifference:
        return self.splits.setdefault(name, SplitDifference())


def members_of(store: Store, release: Release, reading: Reading) -> Iterator[Any]:
    """The tuple fields of a release's members, table by table in the order of their sample ids.

    Args:
        store: Where the release is.
        release: Its manifest.
        reading: How parts are opened.

    Raises:
        IntegrityError: ``member-index.mismatch`` where the index holds a member that the snapshot does not declare;
            ``snapshot.invalid``; and what reading an object raises.
    """
    snapshot = get_record(store, release.objects.snapshot, Snapshot)
    index = get_record(store, release.objects.member_index, MemberIndex)
    declared, indexed = reading.snapshot(snapshot), reading.index(index, release)
    records = 0
    for members, named in aligned(map(declared.read, declared.parts), map(indexed.read, indexed.parts)):
        if members is None or named is None:
            continue
        kept = members.filter(pc.is_in(members.column(KEY), value_set=named.column(KEY)))
        records += kept.num_rows
        yield kept
    if records != release.totals.records:
        raise IntegrityError(ErrorCode.MEMBER_INDEX, "the member index is not one of this snapshot", records=records)


def compare_members(old: Iterator[Any], new: Iterator[Any]) -> Iterator[Step]:
    """The differences of two streams of members, range by range.

    Raises:
        IntegrityError: ``snapshot.invalid``, and what the streams raise.
    """
    for before, after in aligned(old, new):
        yield _step(_table(before), _table(after))


def _table(members: Any) -> Any:
    if members is None:
        return _SHAPE.empty_table()
    try:
        return members.select(_COLUMNS).cast(_SHAPE)
    except (pa.ArrowException, KeyError, ValueError) as err:
        raise IntegrityError(ErrorCode.SNAPSHOT_INVALID, "a part is no table of members") from err


def _step(before: Any, after: Any) -> Step:
    places = pc.index_in(after.column(KEY), value_set=before.column(KEY))
    known = pc.is_valid(places)
    common = after.filter(known)
    was = before.take(places.drop_null())
    fields = {name: pc.not_equal(common.column(column), was.column(column)) for name, column in FIELDS.items()}
    differs = pc.or_(pc.or_(fields["content"], fields["source"]), pc.or_(fields["version"], fields["split"]))
    changed = common.filter(differs)
    return Step(
        added=after.filter(pc.invert(known)),
        removed=before.filter(pc.invert(pc.is_in(before.column(KEY), value_set=after.column(KEY)))),
        changed=changed,
        before=was.filter(differs),
        fields={name: values.filter(differs) for name, values in fields.items()},
        unchanged=common.num_rows - changed.num_rows,
    )


def _counts(members: Any) -> list[tuple[str, int]]:
    counted = pc.value_counts(members.column("split").combine_chunks())
    return [(row["values"], row["counts"]) for row in counted.to_pylist()]

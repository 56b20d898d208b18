"""Differences of two releases, against plain dictionaries; and the streams that they are read from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shardrel.data.aligned import aligned
from shardrel.data.diff import FIELDS, Difference, compare_members, members_of
from shardrel.data.reading import stored_reading
from shardrel.errors import ErrorCode, IntegrityError
from shardrel.gate.fences import FenceSelectors
from shardrel.records.snapshot import Snapshot
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_record, put_record
from shardrel.trust.key_encryption import Unlocked
from tests.support.publishing import Publishing, records_table, write_source
from tests.support.release_builder import a_release

FEW = settings(deadline=None, max_examples=60)
IDS = st.text(alphabet="abé\U0001f600", min_size=1, max_size=3)
MEMBER = st.tuples(*[st.sampled_from(["x", "y"])] * 3, st.sampled_from([bytes(32), bytes([1] * 32)]))
RELEASE = st.dictionaries(IDS, MEMBER, max_size=12)
Members = dict[str, tuple[str, str, str, bytes]]


def tables(members: Members, cuts: list[int]) -> Iterator[Any]:
    """A stream of tables, cut at these places; some may be empty."""
    rows = sorted(members.items(), key=lambda item: item[0].encode())
    ends = sorted(min(cut, len(rows)) for cut in cuts)
    for first, last in zip([0, *ends], [*ends, len(rows)], strict=True):
        names, fields = [row[0] for row in rows[first:last]], [row[1] for row in rows[first:last]]
        columns = [pa.array(names, pa.string())]
        columns += [pa.array([one[at] for one in fields], pa.string()) for at in range(3)]
        columns.append(pa.array([one[3] for one in fields], pa.binary(32)))
        yield pa.table(columns, names=["sample_id", "source_id", "source_version", "split", "content_digest"])


CUTS = st.lists(st.integers(0, 12), max_size=4)


@FEW
@given(RELEASE, RELEASE, CUTS, CUTS)
def test_the_differences_are_those_of_two_dictionaries(
    old: Members, new: Members, old_cuts: list[int], new_cuts: list[int]
) -> None:
    found = Difference()
    added, removed, changed = [], [], []
    for step in compare_members(tables(old, old_cuts), tables(new, new_cuts)):
        found.add(step)
        added += step.added.column("sample_id").to_pylist()
        removed += step.removed.column("sample_id").to_pylist()
        changed += step.changed.column("sample_id").to_pylist()
    common = sorted(old.keys() & new.keys(), key=str.encode)
    assert added == sorted(new.keys() - old.keys(), key=str.encode)
    assert removed == sorted(old.keys() - new.keys(), key=str.encode)
    assert changed == [one for one in common if old[one] != new[one]]
    assert (found.added, found.removed, found.changed) == (len(added), len(removed), len(changed))
    assert found.unchanged == len(common) - len(changed)
    places = {"source": 0, "version": 1, "split": 2, "content": 3}
    assert found.fields == {
        name: sum(old[one][places[name]] != new[one][places[name]] for one in common) for name in FIELDS
    }
    for name in ("x", "y"):
        split = found.splits.get(name)
        assert (split.added if split else 0) == sum(new[one][2] == name for one in added)
        assert (split.removed if split else 0) == sum(old[one][2] == name for one in removed)
        assert (split.changed if split else 0) == sum(name in (old[one][2], new[one][2]) for one in changed)


def test_no_more_than_one_table_a_side_is_read_ahead() -> None:
    read: list[int] = []

    def stream(first: int) -> Iterator[Any]:
        for number in range(50):
            read.append(number)
            yield pa.table({"sample_id": [f"{first + number:03d}-{row}" for row in range(4)]})

    for number, (left, right) in enumerate(aligned(stream(0), stream(0))):
        assert left.num_rows == right.num_rows == 4
        assert len(read) <= 2 * number + 2


@pytest.mark.parametrize("ids", [[["a", "a"]], [["b", "a"]], [["a", "b"], ["b"]], [["b"], ["a"]]])
def test_a_stream_that_is_not_sorted_is_refused(ids: list[list[str]]) -> None:
    with pytest.raises(IntegrityError) as caught:
        list(aligned((pa.table({"sample_id": some}) for some in ids), []))
    assert caught.value.code == ErrorCode.SNAPSHOT_INVALID


def test_a_release_holds_what_its_index_names_and_no_more(tmp_path: Path) -> None:
    made = Publishing(store=MemoryStore())
    made.init()
    source = write_source(tmp_path / "a.arrow", records_table(40))
    snapshot = made.snapshot(source)
    gone = frozenset(records_table(40).column("id").to_pylist()[:3])
    first = made.release(made.publish(snapshot, source).root)
    second = made.release(made.publish(snapshot, source, fences=FenceSelectors(sample_ids=gone)).root)
    reading = stored_reading(made.store, Unlocked())
    found = Difference()
    for step in compare_members(members_of(made.store, first, reading), members_of(made.store, second, reading)):
        found.add(step)
    assert (found.added, found.removed, found.changed, found.unchanged) == (0, 3, 0, 37)


def test_a_release_whose_index_is_not_one_of_its_snapshot_is_refused() -> None:
    built = a_release()
    other = replace(built.snapshot, parts=built.snapshot.parts[:1], records=built.snapshot.parts[0].records - 1)
    part = replace(other.parts[0], object=_without_first(built, other), records=other.records)
    described = put_record(built.store, replace(other, parts=(part,)))
    release = replace(built.release, objects=replace(built.release.objects, snapshot=described))
    assert get_record(built.store, described, Snapshot).parts == (part,)
    with pytest.raises(IntegrityError) as caught:
        list(members_of(built.store, release, stored_reading(built.store, Unlocked())))
    assert caught.value.code == ErrorCode.MEMBER_INDEX


def test_a_part_of_a_snapshot_that_is_not_what_it_says_has_the_snapshots_code() -> None:
    built = a_release()
    part = replace(built.snapshot.parts[0], records=built.snapshot.parts[0].records - 1)
    with pytest.raises(IntegrityError) as caught:
        stored_reading(built.store, Unlocked()).snapshot(replace(built.snapshot, parts=(part,))).read(part)
    assert caught.value.code == ErrorCode.SNAPSHOT_INVALID


def _without_first(built: Any, snapshot: Snapshot) -> Any:
    declared = stored_reading(built.store, Unlocked()).snapshot(snapshot)
    return built._part(declared.read(snapshot.parts[0]).slice(1)).object

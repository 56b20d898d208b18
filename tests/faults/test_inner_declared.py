"""Totals and borders that snapshot and member index declare: releases that nothing else gives away."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from publisher.options import PublishOptions
from shardrel.drills.forge import parquet_bytes
from shardrel.errors import ErrorCode
from shardrel.gate.call import Call
from shardrel.gate.fence import advance
from shardrel.records.descriptor import PARQUET
from shardrel.records.fence import TombstoneEntry
from shardrel.records.report import Finding
from shardrel.records.snapshot import Columns, MemberIndex, Part, Snapshot, SplitTotals
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_by_digest, get_record, put, put_record, unversioned
from tests.support.publishing import NOW, Publishing, write_source
from tests.support.release_builder import Built, a_release, codes


def resnapshot(built: Built, **changes: Any) -> None:
    """The same release of another snapshot record."""
    described = put_record(built.store, replace(built.snapshot, **changes))
    objects = replace(built.release.objects, snapshot=described)
    built.release = replace(built.release, objects=objects, dataset_snapshot=described.digest)


def reindex(built: Built, *parts: Part) -> None:
    """The same release with other parts in its member index."""
    index = get_record(built.store, built.release.objects.member_index, MemberIndex)
    described = unversioned(put_record(built.store, replace(index, parts=parts)))
    built.release = replace(built.release, objects=replace(built.release.objects, member_index=described))


def index_parts(built: Built) -> tuple[Part, ...]:
    """Parts of the member index."""
    return get_record(built.store, built.release.objects.member_index, MemberIndex).parts


def only_finding(built: Built) -> Finding:
    """The one finding of its report."""
    report = built.report()
    assert report.verdict == "FAILED"
    (finding,) = report.findings
    return finding


def of_split(snapshot: Snapshot, name: str, records: int, tokens: int) -> dict[str, SplitTotals]:
    """The splits, one of which has more or fewer."""
    old = snapshot.splits[name]
    return {**snapshot.splits, name: SplitTotals(records=old.records + records, tokens=old.tokens + tokens)}


def moved(snapshot: Snapshot, records: int, tokens: int) -> dict[str, Any]:
    """Records and tokens counted for another split; the sums stay."""
    splits = of_split(snapshot, "train", -records, -tokens)
    more = splits["test"]
    splits["test"] = SplitTotals(records=more.records + records, tokens=more.tokens + tokens)
    return {"splits": splits}


@pytest.mark.parametrize(
    ("values", "kind", "wrong", "seen"),
    [
        ([-1, None, 2**53, 3], pa.int64(), 3, 3),
        ([2**64 - 1, 2**63, None, 3], pa.uint64(), 3, 3),
        ([[1], None, [], [2, 3]], pa.list_(pa.uint8()), 1, 3),
        # Their sum is 3 in 64 bits.
        ([2**53 - 1] * 2048 + [2051], pa.int64(), 0, (2**53 - 1) * 2048 + 2051),
    ],
    ids=["signed", "unsigned", "lists", "a sum beyond 64 bits"],
)
def test_what_is_no_number_of_tokens(values: list[Any], kind: Any, wrong: int, seen: int, tmp_path: Path) -> None:
    made = Publishing(store=MemoryStore())
    made.init()
    table = pa.table({"id": [f"{at:05d}" for at in range(len(values))], "n": pa.array(values, kind)})
    source = write_source(tmp_path / "a.arrow", table)
    columns = Columns(id="id", source=None, version=None, split=None)
    snapshot = made.snapshot(source, columns=columns, token_column=None)
    built = Built(made, made.publish(snapshot, source, options=PublishOptions(shards=1)).root)
    # What an honest publisher refuses to declare as tokens.
    resnapshot(built, token_column="n")
    built.release = replace(built.release, token_column="n")

    found = [finding for finding in built.report().findings if finding.code == ErrorCode.TOKEN_COUNT]
    assert sum(one.count for one in found) == wrong + 1
    assert f"{seen} seen, 0 declared" in {one.detail for one in found}


@pytest.mark.parametrize(
    "change",
    [
        lambda snapshot: {"tokens": snapshot.tokens + 1},
        lambda snapshot: {"splits": of_split(snapshot, "train", 0, 1), "tokens": snapshot.tokens + 1},
        lambda snapshot: moved(snapshot, 1, 0),
        lambda snapshot: moved(snapshot, 0, 1),
        lambda snapshot: {"splits": {**snapshot.splits, "valid": SplitTotals(records=0, tokens=0)}},
    ],
    ids=["tokens", "tokens of a split", "records of two splits", "tokens of two splits", "a split without records"],
)
def test_totals_of_a_snapshot(change: Callable[[Snapshot], dict[str, Any]]) -> None:
    built = a_release()
    resnapshot(built, **change(built.snapshot))
    finding = only_finding(built)
    assert (finding.code, finding.subject) == (ErrorCode.SNAPSHOT_INVALID, built.release.dataset_snapshot)


@pytest.mark.parametrize("parts", [60, 7])
def test_totals_are_counted_over_all_parts(parts: int) -> None:
    built = a_release()
    built.recut(parts, parts)
    assert built.report().findings == ()
    resnapshot(built, **moved(built.snapshot, 3, 0))
    assert only_finding(built).count == 2


def test_tokens_are_the_shards_fault_where_members_differ() -> None:
    built = a_release()
    built.rewrite(0, lambda table: table.slice(1))
    assert ErrorCode.SNAPSHOT_INVALID not in codes(built.report())


@pytest.mark.parametrize(("by", "expected"), [(0, set()), (5, set()), (-10_000, {ErrorCode.SNAPSHOT_INVALID})])
def test_members_that_a_log_names_count_in_the_snapshot(by: int, expected: set[str]) -> None:
    """Of a split that lost some, the tokens that are left may be fewer than those declared, and not more."""
    built = a_release()
    table = built.shard_table(0)
    place = table.column("_shardrel_split").to_pylist().index("train")
    gone = table.column("_shardrel_sample_id")[place].as_py()
    entry = TombstoneEntry(
        sequence=1, sample_id=gone, source_id=None, source_version=None, content_digest=None, reason=None
    )
    call = Call(signers=[built.made.keys["admin"]], recorded_at=NOW, operation_id=None, pending=None)
    advance(built.store, built.made.dataset, "tombstones", [entry], call)
    totals = built.snapshot.splits["train"].tokens
    by = max(by, -totals)
    splits = of_split(built.snapshot, "train", 0, by)
    resnapshot(built, tombstone_watermark=1, splits=splits, tokens=built.snapshot.tokens + by)
    built.release = replace(built.release, tombstone_watermark=1)
    built.rewrite(0, lambda table: pa.concat_tables([table.slice(0, place), table.slice(place + 1)]))
    built.fit()
    assert codes(built.report()) == expected


@pytest.mark.parametrize("last", ["sample-000000", "zzz", ""])
@pytest.mark.parametrize("which", [0, -1])
def test_the_last_sample_id_of_a_part_of_the_member_index(last: str, which: int) -> None:
    built = a_release()
    built.recut(20, 20)
    parts = list(index_parts(built))
    parts[which] = replace(parts[which], last_sample_id=last)
    reindex(built, *parts)
    report = built.report()
    assert codes(report) == {ErrorCode.MEMBER_INDEX}
    assert {finding.subject for finding in report.findings} == {built.release.objects.member_index.digest}


def test_a_member_index_of_one_part_ends_with_the_last_sample_id() -> None:
    built = a_release()
    (part,) = index_parts(built)
    reindex(built, replace(part, last_sample_id=(part.last_sample_id or "") + "a"))
    assert only_finding(built).code == ErrorCode.MEMBER_INDEX


def test_an_index_part_that_no_range_reads_is_noticed_by_its_place() -> None:
    built = a_release()
    built.recut(20, 20)
    first, *others = index_parts(built)
    stray = pq.read_table(pa.BufferReader(get_by_digest(built.store, first.object.digest))).slice(0, 1)
    descriptor = unversioned(put(built.store, parquet_bytes(stray), PARQUET)[0])
    end = Part(object=descriptor, records=1, last_sample_id=stray.column(0)[0].as_py())
    reindex(built, first, *others, end)
    assert codes(built.report()) == {ErrorCode.MEMBER_INDEX}


def test_the_last_sample_id_of_a_part_of_the_snapshot() -> None:
    built = a_release()
    (part,) = built.snapshot.parts
    resnapshot(built, parts=(replace(part, last_sample_id=(part.last_sample_id or "") + "a"),))
    assert only_finding(built).code == ErrorCode.SNAPSHOT_INVALID

"""verify and its short form on whole releases: fences, empty shards, more parts, signatures, faults of the store."""

import dataclasses
from functools import partial
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from publisher.options import PublishOptions
from shardrel.canonical import json, sha
from shardrel.canonical.text import text_digest
from shardrel.digest import to_digest
from shardrel.errors import ErrorCode, RefusedError, UnavailableError
from shardrel.gate.attestations import list_envelopes, read_envelope
from shardrel.gate.call import Call
from shardrel.gate.fence import advance
from shardrel.gate.fences import FenceSelectors
from shardrel.gate.policy import set_policy
from shardrel.gate.view import GateView, read_gate
from shardrel.records.fence import BenchmarkEntry, TombstoneEntry
from shardrel.records.gate import FenceKind
from shardrel.records.policy import Role
from shardrel.records.report import REPORT_PREDICATE, STATEMENT_PAYLOAD, SUMMARY_PREDICATE, Report
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import put_record
from shardrel.trust.envelope import unseal
from shardrel.trust.statement import read_statement
from tests.support import gates
from tests.support.benchmark_texts import text_entry
from tests.support.publishing import NOW, Publishing, records_table, write_source
from tests.support.release_builder import Built, a_release, a_world, codes
from verifier.parts import fetched, read_snapshot_part
from verifier.recheck import recheck_fences
from verifier.verify import verify_release


def gate_of(built: Built) -> GateView:
    """The gate as it is now."""
    return read_gate(built.store, built.made.dataset)


def fence(built: Built, kind: FenceKind, *entries: Any) -> None:
    """Advance a fence over these entries."""
    call = Call(signers=[built.made.keys["admin"]], recorded_at=NOW, operation_id=None, pending=None)
    advance(built.store, built.made.dataset, kind, list(entries), call)


def tombstone(sequence: int, **selector: str) -> TombstoneEntry:
    """A deletion by one selector."""
    nothing = {"sample_id": None, "source_id": None, "source_version": None, "content_digest": None}
    return TombstoneEntry(sequence=sequence, reason=None, **{**nothing, **selector})


def benchmark(sequence: int, **selector: str) -> BenchmarkEntry:
    """A benchmark item by one selector."""
    nothing = {"content_digest": None, "text_digest": None}
    return BenchmarkEntry(sequence=sequence, benchmark="exam", shingles=None, **{**nothing, **selector})


def first(built: Built, column: str) -> Any:
    """First value of a column of the first shard."""
    return built.shard_table(0).column(column)[0].as_py()


def longest_text(built: Built) -> str:
    """A text of the first shard that has words."""
    return max(built.shard_table(0).column("text").to_pylist(), key=len)


def test_the_report_and_the_summary_are_signed_statements_about_the_root() -> None:
    built = a_release()
    result = built.verified(built.root)
    key = built.made.keys["verifier"].public
    opened = {}
    for digest in (result.report_digest, result.summary_digest):
        envelope = read_envelope(built.store, built.root, digest)
        assert envelope is not None
        kind, predicate = read_statement(unseal(envelope, STATEMENT_PAYLOAD, [key]).payload, built.root, None)
        opened[kind] = predicate
    assert set(opened) == {REPORT_PREDICATE, SUMMARY_PREDICATE}
    assert json.decode(opened[REPORT_PREDICATE], Report) == result.report
    assert b'"verificationResult":"PASSED"' in opened[SUMMARY_PREDICATE]


def test_how_many_rows_will_be_hashed_is_told_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Content, tuple and a node of the tree: how they are hashed is decided by it, not by what has been hashed so far."""
    told: list[int] = []
    monkeypatch.setattr(sha._LANES, "expect", told.append)
    built = a_release()
    told.clear()
    built.verified(built.root)
    assert told == [3 * built.release.totals.records]


def test_the_report_does_not_depend_on_the_number_of_workers() -> None:
    built = a_release()
    built.rewrite(0, lambda table: table.slice(1))
    root, gate = built.seal(), gate_of(built)
    reports = [verify_release(built.store, root, gate, world=a_world(built.made, n)).report for n in (1, 2, 5)]
    assert reports[0] == reports[1] == reports[2]
    assert reports[0].verdict == "FAILED"


@pytest.mark.parametrize("selector", ["sample_id", "source_id", "source_version", "content_digest"])
def test_a_tombstone_hit_is_counted_by_both_forms(selector: str) -> None:
    built = a_release()
    built.verified(built.root)
    named = {
        "sample_id": {"sample_id": first(built, "_shardrel_sample_id")},
        "source_id": {"source_id": first(built, "_shardrel_source_id")},
        "source_version": {
            "source_id": first(built, "_shardrel_source_id"),
            "source_version": first(built, "_shardrel_source_version"),
        },
        "content_digest": {"content_digest": _content(built)},
    }[selector]
    fence(built, "tombstones", tombstone(1, sample_id="nobody"), tombstone(2, **named))
    full = built.verified(built.root).report
    checked = recheck_fences(built.store, built.root, gate_of(built), world=a_world(built.made))
    delta = checked.report
    assert checked.entries == ((2,), ())
    assert codes(full) == codes(delta) == {ErrorCode.TOMBSTONE_HIT}
    assert full.counts.tombstone_hits == delta.counts.tombstone_hits > 0
    assert (full.kind, full.tombstones.first, full.tombstones.last) == ("full", 1, 2)
    assert (delta.kind, delta.tombstones.first, delta.tombstones.last) == ("delta", 1, 2)


def _content(built: Built) -> str:
    listed = read_snapshot_part(partial(fetched, built.store), built.snapshot.parts[0], None)
    return to_digest(listed.content[0].tobytes())


@pytest.mark.parametrize("selector", ["content_digest", "text_digest"])
def test_a_benchmark_hit_is_counted_by_both_forms(selector: str) -> None:
    built = a_release()
    built.verified(built.root)
    text = text_digest("  " + longest_text(built).upper())
    assert text is not None
    value = _content(built) if selector == "content_digest" else to_digest(text)
    fence(built, "benchmarks", benchmark(1, **{selector: value}))
    full = built.verified(built.root).report
    checked = recheck_fences(built.store, built.root, gate_of(built), world=a_world(built.made))
    delta = checked.report
    assert checked.entries == (((), (1,)) if selector == "content_digest" else None)
    assert codes(full) == codes(delta) == {ErrorCode.BENCHMARK_HIT}
    assert full.counts.benchmark_hits == delta.counts.benchmark_hits == 1


def test_words_shared_with_a_benchmark_are_counted_by_both_forms() -> None:
    built = a_release()
    built.verified(built.root)
    words = longest_text(built).split()
    asked = "never asked here: " + " – ".join(words[:6]).upper() + "?"
    fence(
        built,
        "benchmarks",
        text_entry(1, "no words that anybody wrote", words=4),
        benchmark(2, content_digest="sha256:" + "0" * 64),
        text_entry(3, asked, words=6),
        text_entry(4, "short", words=6),
    )
    full = built.verified(built.root).report
    delta = recheck_fences(built.store, built.root, gate_of(built), world=a_world(built.made)).report
    assert codes(full) == codes(delta) == {ErrorCode.BENCHMARK_HIT}
    assert full.counts.benchmark_hits == delta.counts.benchmark_hits == 1
    assert (delta.kind, delta.benchmarks.first, delta.benchmarks.last) == ("delta", 1, 4)
    assert words[0].encode() not in json.encode(full).lower()


def test_a_recheck_looks_at_new_shingles_alone() -> None:
    built = a_release()
    text = longest_text(built)
    fence(built, "benchmarks", text_entry(1, "nobody wrote these words", words=4))
    built.verified(built.root)
    fence(built, "benchmarks", text_entry(2, "nor any of these words", words=4))
    one = recheck_fences(built.store, built.root, gate_of(built), world=a_world(built.made)).report
    fence(built, "benchmarks", text_entry(3, text, words=3))
    two = recheck_fences(built.store, built.root, gate_of(built), world=a_world(built.made)).report
    assert (one.verdict, one.benchmarks.first, one.benchmarks.last) == ("PASSED", 2, 2)
    assert (two.verdict, two.benchmarks.first, two.benchmarks.last) == ("FAILED", 3, 3)


def test_a_recheck_begins_where_the_last_report_ended() -> None:
    built = a_release()
    fence(built, "tombstones", tombstone(1, sample_id="nobody"))
    built.verified(built.root)
    fence(built, "tombstones", tombstone(2, sample_id="nobody else"))
    fence(built, "benchmarks", benchmark(1, content_digest="sha256:" + "0" * 64))
    one = recheck_fences(built.store, built.root, gate_of(built), world=a_world(built.made)).report
    assert (one.tombstones.first, one.tombstones.last, one.benchmarks.first, one.benchmarks.last) == (2, 2, 1, 1)
    fence(built, "tombstones", tombstone(3, sample_id=first(built, "_shardrel_sample_id")))
    two = recheck_fences(built.store, built.root, gate_of(built), world=a_world(built.made)).report
    assert (two.tombstones.first, two.tombstones.last, two.benchmarks.first) == (3, 3, 0)
    assert (one.verdict, two.verdict) == ("PASSED", "FAILED")


def test_a_recheck_of_nothing_new_signs_nothing() -> None:
    built = a_release()
    full = built.verified(built.root)
    for _ in range(2):
        again = recheck_fences(built.store, built.root, gate_of(built), world=a_world(built.made))
        assert (again.report_digest, again.summary_digest) == (full.report_digest, None)
    fence(built, "tombstones", tombstone(1, sample_id="nobody"))
    delta = recheck_fences(built.store, built.root, gate_of(built), world=a_world(built.made))
    envelopes = list(built.store.list("attestations/"))
    again = recheck_fences(built.store, built.root, gate_of(built), world=a_world(built.made))
    assert (again.report, again.report_digest) == (delta.report, delta.report_digest)
    assert list(built.store.list("attestations/")) == envelopes


def test_each_of_two_verifiers_that_the_policy_asks_for_says_it_itself() -> None:
    built = a_release()
    made = built.made
    made.keys["second"] = gates.key("second-verifier")
    both = Role(keys=(made.keys["verifier"].public, made.keys["second"].public), threshold=2)
    policy = gate_of(built).policy
    set_policy(
        built.store,
        made.dataset,
        replace(policy, roles=replace(policy.roles, verifier=both)),
        Call(signers=[made.keys["admin"]], recorded_at=gates.NOW, operation_id=None, pending=None),
    )
    worlds = [dataclasses.replace(a_world(made), signer=made.keys[name]) for name in ("verifier", "second")]
    for world in worlds:
        verify_release(built.store, built.root, gate_of(built), world=world)
    fence(built, "tombstones", tombstone(1, sample_id="nobody"))
    ranges = []
    for world in worlds:
        done = recheck_fences(built.store, built.root, gate_of(built), world=world)
        assert done.summary_digest is not None
        ranges.append((done.report.tombstones.first, done.report.tombstones.last))
    assert ranges == [(1, 1), (1, 1)]
    assert recheck_fences(built.store, built.root, gate_of(built), world=worlds[0]).summary_digest is None


def test_a_recheck_needs_a_full_report_that_passed() -> None:
    built = a_release()
    with pytest.raises(RefusedError) as caught:
        recheck_fences(built.store, built.root, gate_of(built), world=a_world(built.made))
    assert caught.value.code == ErrorCode.GATE_NOT_VERIFIED


def a_dataset(tmp_path: Path, count: int, **options: Any) -> Built:
    """A release of another size."""
    made = Publishing(store=MemoryStore())
    made.init()
    source = write_source(tmp_path / "a.arrow", records_table(count))
    return Built(made, made.publish(made.snapshot(source), source, options=PublishOptions(**options)).root)


def test_shards_without_records_pass(tmp_path: Path) -> None:
    built = a_dataset(tmp_path, 3, shards=9)
    assert any(shard.records == 0 for shard in built.release.shards)
    assert built.verified(built.root).report.findings == ()


def test_what_was_left_out_up_to_the_roots_watermark_is_not_missing(tmp_path: Path) -> None:
    made = Publishing(store=MemoryStore())
    made.init()
    table = records_table(30)
    gone = table.column("id")[0].as_py()
    source = write_source(tmp_path / "a.arrow", table)
    whole = made.snapshot(source)
    built = Built(made, made.publish(whole, source, fences=FenceSelectors(sample_ids=frozenset([gone]))).root)
    # The publisher left it out, yet this root's watermark does not reach an entry that says so.
    assert built.verified(built.root).report.counts.missing == 1


@pytest.mark.parametrize("which", ["shard", "first part", "last part"])
def test_a_store_that_does_not_answer_ends_it_unsigned(monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    built = a_release()
    built.recut(7, 7)
    root = built.seal()
    parts = built.snapshot.parts
    places = {"shard": built.release.shards[1], "first part": parts[0].object, "last part": parts[-1].object}
    silent = places[which].digest[7:]
    read = built.store.read

    def failing(key: Any, **how: Any) -> Any:
        if key.endswith(silent):
            raise UnavailableError(ErrorCode.STORE_UNAVAILABLE, "no answer")
        return read(key, **how)

    monkeypatch.setattr(built.store, "read", failing)
    before = list_envelopes(built.store, root)
    with pytest.raises(UnavailableError):
        built.verified(root)
    assert list_envelopes(built.store, root) == before


def test_parts_are_read_while_the_last_shard_is_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that has no shard left would wait otherwise."""
    built = a_release()
    last, part = built.release.shards[-1].digest[7:], built.snapshot.parts[0].object.digest[7:]
    read, seen, waited = built.store.read, Event(), []

    def watched(key: Any, **how: Any) -> Any:
        if key.endswith(last):
            waited.append(seen.wait(30))
        if key.endswith(part):
            seen.set()
        return read(key, **how)

    monkeypatch.setattr(built.store, "read", watched)
    assert verify_release(built.store, built.root, gate_of(built), world=a_world(built.made, 2)).report.findings == ()
    assert waited == [True]


def test_parts_are_not_read_for_a_release_whose_shards_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the two that are to be read ahead, one may have begun when a shard fails; the other waits, and is left."""
    built = a_release()
    built.recut(7, 7)
    root = built.seal()
    first, last = (shard.digest[7:] for shard in built.release.shards)
    parts = {part.object.digest[7:] for part in built.snapshot.parts}
    read, asked = built.store.read, list[str]()

    def silent(key: Any, **how: Any) -> Any:
        name = key.rsplit("/", 1)[1]
        asked.append(name)
        sleep({first: 0.1, last: 1}.get(name, 0.2 if name in parts else 0))
        if name in (first, last):
            raise UnavailableError(ErrorCode.STORE_UNAVAILABLE, "no answer")
        return read(key, **how)

    monkeypatch.setattr(built.store, "read", silent)
    with pytest.raises(UnavailableError):
        verify_release(built.store, root, gate_of(built), world=a_world(built.made, 2))
    assert {first, last} <= set(asked)
    assert len(parts & set(asked)) <= 1


@pytest.mark.parametrize(("snapshot_part", "index_part"), [(7, 7), (7, 11), (1, 60), (60, 1), (13, 2)])
def test_however_snapshot_and_index_are_cut_the_root_is_the_same(snapshot_part: int, index_part: int) -> None:
    built = a_release()
    built.recut(snapshot_part, index_part)
    assert built.report().findings == ()


def test_differences_are_the_same_in_many_ranges() -> None:
    reports = []
    for size in (60, 7, 1):
        built = a_release()
        built.recut(size, size)
        built.rewrite(0, lambda table: table.slice(2))
        built.rewrite(1, lambda table: pa.concat_tables([table.slice(0, 1), table]))
        reports.append(built.report())
    assert [report.counts for report in reports] == [reports[0].counts] * 3
    assert (reports[0].counts.missing, reports[0].counts.duplicate) == (2, 1)


@pytest.mark.parametrize("wrong", ["order", "border", "count", "absent"])
def test_a_snapshot_that_does_not_hold_together_is_a_finding(wrong: str) -> None:
    built = a_release()
    built.recut(20, 20)
    parts = list(built.snapshot.parts)
    if wrong == "order":
        parts = parts[::-1]
    elif wrong == "border":
        parts[0] = replace(parts[0], last_sample_id=(parts[0].last_sample_id or "") + "a")
    elif wrong == "count":
        parts[0] = replace(parts[0], records=parts[0].records + 1)
    else:
        parts[0] = replace(parts[0], object=replace(parts[0].object, digest="sha256:" + "0" * 64))
    described = put_record(built.store, replace(built.snapshot, parts=tuple(parts)))
    objects = replace(built.release.objects, snapshot=described)
    built.release = replace(built.release, objects=objects, dataset_snapshot=described.digest)
    found = codes(built.report())
    assert found & {ErrorCode.SNAPSHOT_INVALID, ErrorCode.STORAGE_ABSENT, ErrorCode.RECORD_COUNT}

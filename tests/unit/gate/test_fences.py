"""Fence logs and the verb that advances them."""

import dataclasses
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from shardrel.digest import digest_of, raw_digest
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.errors import ConflictError, ErrorCode, IntegrityError, OutcomeUnknownError, RefusedError
from shardrel.gate import fences
from shardrel.gate.admit import admit
from shardrel.gate.fence import Advanced, advance, stage
from shardrel.gate.view import read_gate
from shardrel.records.fence import BenchmarkEntry, TombstoneEntry
from shardrel.records.gate import Fence, FenceKind
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Store
from tests.support import gates

DIGEST = digest_of(b"content")
TEXT_DIGEST = digest_of(b"text")


def tombstone(sequence: int, sample: str | None = None) -> TombstoneEntry:
    return TombstoneEntry(
        sequence=sequence,
        sample_id=sample or f"s{sequence}",
        source_id=None,
        source_version=None,
        content_digest=None,
        reason=None,
    )


def tombstones(first: int, last: int) -> list[TombstoneEntry]:
    return [tombstone(sequence) for sequence in range(first, last + 1)]


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    gates.new_gate(store)
    return store


def take(store: Store, first: int, last: int, operation_id: str | None = None) -> Advanced:
    return advance(store, gates.DATASET, "tombstones", tombstones(first, last), gates.call(operation_id=operation_id))


def log(store: Store, first: int = 1) -> list[fences.Entry]:
    return fences.read_log(store, read_gate(store, gates.DATASET).body.tombstones, "tombstones", first)


def test_entries_are_read_back_in_order_over_several_advances(store: MemoryStore) -> None:
    take(store, 1, 2)
    assert take(store, 3, 5).watermark == 5
    assert log(store) == tombstones(1, 5)
    assert log(store, 2) == tombstones(2, 5)
    assert log(store, 6) == []


def test_a_repeat_that_equals_the_log_is_harmless_and_moves_nothing(store: MemoryStore) -> None:
    take(store, 1, 3)
    sequence = read_gate(store, gates.DATASET).body.sequence
    assert take(store, 2, 3) == Advanced(kind="tombstones", watermark=3, closed_permits=(), appended=0)
    assert read_gate(store, gates.DATASET).body.sequence == sequence
    overlapping = take(store, 2, 4)
    assert (overlapping.watermark, overlapping.appended) == (4, 1)


def test_a_repeat_that_differs_is_refused(store: MemoryStore) -> None:
    take(store, 1, 3)
    changed = [tombstone(2, "other"), tombstone(3), tombstone(4)]
    with pytest.raises(RefusedError) as caught:
        advance(store, gates.DATASET, "tombstones", changed, gates.call())
    assert caught.value.code == ErrorCode.FENCE_CONFLICT
    assert log(store) == tombstones(1, 3)


def test_a_gap_is_refused(store: MemoryStore) -> None:
    with pytest.raises(ConflictError) as caught:
        take(store, 2, 3)
    assert caught.value.code == ErrorCode.FENCE_GAP


def test_a_step_beyond_the_policy_is_refused() -> None:
    store = MemoryStore()
    gates.new_gate(store, replace(gates.a_policy(), max_fence_step=2))
    with pytest.raises(RefusedError) as caught:
        take(store, 1, 3)
    assert caught.value.code == ErrorCode.FENCE_STEP


def test_an_advance_names_the_permits_that_it_closed_also_when_asked_again(store: MemoryStore) -> None:
    root = gates.a_root("one")
    gates.stage(store, root)
    gates.attest(store, root)
    permit = admit(store, gates.DATASET, root, "prod", gates.call()).permit
    first = take(store, 1, 1, "op")
    take(store, 2, 2)
    assert first.closed_permits == (permit,)
    again = take(store, 1, 1, "op")
    assert (again.watermark, again.closed_permits) == (1, (permit,))


def test_an_advance_of_unknown_outcome_is_finished_by_a_rerun(store: MemoryStore) -> None:
    for fault in (Fault.UNKNOWN_BEFORE, Fault.UNKNOWN_AFTER):
        watermark = read_gate(store, gates.DATASET).body.tombstones.watermark
        faulty = FaultyStore(store, [Rule(operation="swap", fault=fault)])
        with pytest.raises(OutcomeUnknownError):
            take(faulty, watermark + 1, watermark + 1, fault.name)
        assert take(store, watermark + 1, watermark + 1, fault.name).watermark == watermark + 1
    assert log(store) == tombstones(1, 2)


def test_two_governors_who_race_do_not_both_take_the_same_numbers(store: MemoryStore) -> None:
    def rival(_: str) -> None:
        advance(store, gates.DATASET, "tombstones", [tombstone(1, "rival")], gates.call())

    with pytest.raises(ConflictError) as caught:
        take(FaultyStore(store, [Rule(operation="swap", fault=Fault.HOOK, hook=rival)]), 1, 1)
    assert caught.value.code == ErrorCode.FENCE_GAP
    assert log(store) == [tombstone(1, "rival")]


def test_two_who_race_with_the_same_entries_both_succeed_with_one_effect(store: MemoryStore) -> None:
    def rival(_: str) -> None:
        take(store, 1, 3)

    late = take(FaultyStore(store, [Rule(operation="swap", fault=Fault.HOOK, hook=rival)]), 1, 2)
    assert late == Advanced(kind="tombstones", watermark=3, closed_permits=(), appended=0)
    assert log(store) == tombstones(1, 3)


def test_a_big_log_is_kept_in_bounded_chunks(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fences, "_CHUNK_BYTES", 400)
    take(store, 1, 2)
    take(store, 3, 20)
    assert log(store) == tombstones(1, 20)
    assert log(store, 11) == tombstones(11, 20)


def test_a_log_that_does_not_end_at_the_watermark_is_broken(store: MemoryStore) -> None:
    newest = fences.append(store, tombstones(1, 3), None)
    for watermark in (2, 4):
        with pytest.raises(IntegrityError) as caught:
            fences.read_log(store, Fence(watermark=watermark, log=newest), "tombstones")
        assert caught.value.code == ErrorCode.GATE_HISTORY


def test_a_log_with_a_hole_is_broken(store: MemoryStore) -> None:
    newest = fences.append(store, tombstones(5, 6), fences.append(store, tombstones(1, 3), None))
    with pytest.raises(IntegrityError):
        fences.read_log(store, Fence(watermark=6, log=newest), "tombstones")
    first = fences.append(store, tombstones(2, 3), None)
    with pytest.raises(IntegrityError):
        fences.read_log(store, Fence(watermark=3, log=first), "tombstones")


def test_selectors_are_sorted_by_what_they_select() -> None:
    entries = [
        tombstone(1, "a"),
        replace(tombstone(2), sample_id=None, source_id="x"),
        replace(tombstone(3), sample_id=None, source_id="y", source_version="7"),
        replace(tombstone(4), sample_id=None, content_digest=DIGEST),
    ]
    benchmark = BenchmarkEntry(
        sequence=1, benchmark="quiz", content_digest=None, text_digest=TEXT_DIGEST, shingles=None
    )
    found = fences.selectors(entries) | fences.selectors([benchmark])
    assert found == fences.FenceSelectors(
        sample_ids=frozenset({"a"}),
        sources=frozenset({"x"}),
        source_versions=frozenset({("y", "7")}),
        content_digests=frozenset({raw_digest(DIGEST)}),
        text_digests=frozenset({raw_digest(TEXT_DIGEST)}),
    )
    assert fences.selectors(entries, upto=1) == fences.FenceSelectors(sample_ids=frozenset({"a"}))
    assert not fences.selectors(entries, upto=0)


def test_both_logs_are_apart(store: MemoryStore) -> None:
    benchmark = BenchmarkEntry(sequence=1, benchmark="quiz", content_digest=DIGEST, text_digest=None, shingles=None)
    take(store, 1, 2)
    assert advance(store, gates.DATASET, "benchmarks", [benchmark], gates.call()).watermark == 1
    body = read_gate(store, gates.DATASET).body
    assert fences.read_log(store, body.benchmarks, "benchmarks") == [benchmark]
    assert body.tombstones.watermark == 2


@pytest.mark.parametrize("first", ["advance", "stage"])
@pytest.mark.parametrize("then", ["advance", "stage", "other entries", "more entries", "fewer entries", "benchmarks"])
def test_the_id_of_an_operation_on_a_log_is_no_excuse_for_taking_nothing(
    store: MemoryStore, first: str, then: str
) -> None:
    call = gates.call(operation_id="op")
    verbs = {"advance": advance, "stage": stage}
    done = verbs[first](store, gates.DATASET, "tombstones", tombstones(1, 2), call)
    others: dict[str, Sequence[fences.Entry]] = {
        "other entries": [tombstone(1), tombstone(2, "another")],
        "more entries": tombstones(1, 3),
        "fewer entries": tombstones(1, 1),
        "benchmarks": [
            BenchmarkEntry(sequence=1, benchmark="b", content_digest=DIGEST, text_digest=None, shingles=None)
        ],
    }
    entries = others.get(then, tombstones(1, 2))
    kind: FenceKind = "benchmarks" if then == "benchmarks" else "tombstones"
    again = verbs.get(then, verbs[first])
    if then == first:
        assert again(store, gates.DATASET, kind, entries, call) == dataclasses.replace(done, appended=0)
        return
    with pytest.raises(RefusedError) as caught:
        again(store, gates.DATASET, kind, entries, call)
    assert caught.value.code == ErrorCode.GATE_OPERATION_REUSED

"""Staged advances: appended first, checked ahead, and taken later without a stall."""

import dataclasses

import pytest
from msgspec.structs import replace

from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.errors import ConflictError, ErrorCode, OutcomeUnknownError, RefusedError
from shardrel.gate import fences
from shardrel.gate.admit import admit
from shardrel.gate.facts import LogFacts
from shardrel.gate.fence import Advanced, advance, advance_staged, stage
from shardrel.gate.runs import renew, start
from shardrel.gate.view import read_gate
from shardrel.records.fence import BenchmarkEntry, TombstoneEntry
from shardrel.records.gate import Fence, GateBody, Staged
from shardrel.records.report import Report
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Store
from tests.support import gates
from tests.unit.gate.bodies import accepted, advance_evidence, advance_request, descriptor, known, refused
from tests.unit.gate.test_fences import tombstone, tombstones

ROOT = gates.a_root("one")


@pytest.fixture
def store() -> MemoryStore:
    """A gate with one admitted root."""
    store = MemoryStore()
    gates.new_gate(store)
    gates.stage(store, ROOT)
    gates.attest(store, ROOT)
    admit(store, gates.DATASET, ROOT, "prod", gates.call())
    return store


def fence(store: Store) -> Fence:
    return read_gate(store, gates.DATASET).body.tombstones


def put(
    store: Store, entries: list[TombstoneEntry], *, again: bool = False, operation_id: str | None = None
) -> Advanced:
    call = gates.call(operation_id=operation_id)
    return stage(store, gates.DATASET, "tombstones", entries, call, replace_staged=again)


def take(store: Store, entries: list[TombstoneEntry], *, again: bool = False) -> Advanced:
    return advance(store, gates.DATASET, "tombstones", entries, gates.call(), replace_staged=again)


def take_staged(store: Store, operation_id: str | None = None) -> Advanced:
    return advance_staged(store, gates.DATASET, "tombstones", gates.call(operation_id=operation_id))


def ahead(body: GateBody, *, hits: int = 0) -> Report:
    """A delta report from the gate's watermark over everything that is staged."""
    staged = body.tombstones.staged
    assert staged is not None
    end = Fence(watermark=staged.watermark, log=staged.log)
    ranges = gates.Ranges(
        tombstones=gates.log_range(body.tombstones.watermark + 1, staged.watermark, end, body.tombstones),
        benchmarks=gates.log_range(0, 0, None),
    )
    return gates.a_report(body, ROOT, ranges=ranges, kind="delta", hits=hits)


def test_staging_closes_nothing_and_moves_no_watermark(store: MemoryStore) -> None:
    permits = read_gate(store, gates.DATASET).body.permits
    done = put(store, tombstones(1, 3))
    assert (done.watermark, done.staged, done.closed_permits, done.appended) == (0, 3, (), 3)
    body = read_gate(store, gates.DATASET).body
    assert body.permits == permits
    assert fences.read_log(store, body.tombstones, "tombstones") == []
    assert list(fences.read_staged(store, body.tombstones, "tombstones").entries) == tombstones(1, 3)


def test_an_advance_over_what_is_staged_takes_the_very_chunks(store: MemoryStore) -> None:
    put(store, tombstones(1, 3))
    put(store, tombstones(4, 5))
    staged = fence(store).staged
    assert staged is not None
    done = take(store, tombstones(1, 5))
    assert (done.watermark, done.staged, done.appended, len(done.closed_permits)) == (5, None, 0, 1)
    assert fence(store) == Fence(watermark=5, log=staged.log)


def test_an_advance_without_a_file_takes_all_and_again_nothing(store: MemoryStore) -> None:
    put(store, tombstones(1, 3))
    assert take_staged(store, "op").watermark == 3
    assert take_staged(store, "op").closed_permits != ()
    again = take_staged(store)
    assert (again.watermark, again.closed_permits, again.staged) == (3, (), None)


def test_staging_again_is_harmless_and_goes_on_where_it_ended(store: MemoryStore) -> None:
    put(store, tombstones(1, 3))
    sequence = read_gate(store, gates.DATASET).body.sequence
    assert put(store, tombstones(1, 3)).appended == put(store, tombstones(2, 2)).appended == 0
    assert read_gate(store, gates.DATASET).body.sequence == sequence
    assert put(store, tombstones(2, 5)) == Advanced(
        kind="tombstones", watermark=0, staged=5, closed_permits=(), appended=2
    )
    with pytest.raises(ConflictError) as caught:
        put(store, tombstones(7, 8))
    assert caught.value.code == ErrorCode.FENCE_GAP


@pytest.mark.parametrize("verb", [put, take])
def test_other_entries_than_the_staged_ones_have_to_be_meant(store: MemoryStore, verb) -> None:  # type: ignore[no-untyped-def]
    put(store, tombstones(1, 3))
    other = [tombstone(1), tombstone(2, "another")]
    with pytest.raises(ConflictError) as caught:
        verb(store, other)
    assert caught.value.code == ErrorCode.FENCE_STAGED
    done = verb(store, other, again=True)
    assert done.appended == 2
    assert (done.watermark, done.staged) in {(0, 2), (2, None)}
    assert done.watermark == 2 or fence(store).staged is not None


def test_a_part_of_what_is_staged_is_taken_up_to_where_one_stage_ended(store: MemoryStore) -> None:
    put(store, tombstones(1, 3))
    put(store, tombstones(4, 5))
    with pytest.raises(ConflictError) as caught:
        take(store, tombstones(1, 2))
    assert caught.value.code == ErrorCode.FENCE_STAGED
    assert caught.value.context["ends"] == ["3", "5"]
    done = take(store, tombstones(1, 3))
    assert (done.watermark, done.staged) == (3, 5)
    assert list(fences.read_staged(store, fence(store), "tombstones").entries) == tombstones(4, 5)
    assert take_staged(store).watermark == 5
    assert fences.read_log(store, fence(store), "tombstones") == tombstones(1, 5)


def test_an_advance_that_goes_beyond_what_is_staged_takes_both(store: MemoryStore) -> None:
    put(store, tombstones(1, 3))
    done = take(store, tombstones(1, 4))
    assert (done.watermark, done.staged, done.appended) == (4, None, 1)
    assert fences.read_log(store, fence(store), "tombstones") == tombstones(1, 4)


def test_an_advance_does_not_jump_over_what_is_staged(store: MemoryStore) -> None:
    put(store, tombstones(1, 3))
    with pytest.raises(ConflictError) as caught:
        take(store, tombstones(4, 5))
    assert caught.value.code == ErrorCode.FENCE_GAP


def test_no_more_is_staged_than_one_advance_may_take() -> None:
    store = MemoryStore()
    gates.new_gate(store, replace(gates.a_policy(), max_fence_step=3))
    put(store, tombstones(1, 2))
    with pytest.raises(RefusedError) as caught:
        put(store, tombstones(3, 4))
    assert caught.value.code == ErrorCode.FENCE_STEP
    assert put(store, tombstones(3, 3)).staged == 3


def test_what_a_rival_staged_meanwhile_is_not_dropped_unseen(store: MemoryStore) -> None:
    def rival(_: str) -> None:
        put(store, [tombstone(1, "rival")])

    for verb in (put, take):
        racing = FaultyStore(store, [Rule(operation="swap", fault=Fault.HOOK, hook=rival)])
        with pytest.raises(ConflictError) as caught:
            verb(racing, tombstones(1, 2))
        assert caught.value.code == ErrorCode.FENCE_STAGED
    assert list(fences.read_staged(store, fence(store), "tombstones").entries) == [tombstone(1, "rival")]


def test_a_stage_behind_a_fence_that_moved_meanwhile_is_refused(store: MemoryStore) -> None:
    def rival(_: str) -> None:
        take(store, tombstones(1, 1))

    with pytest.raises(ConflictError) as caught:
        put(FaultyStore(store, [Rule(operation="swap", fault=Fault.HOOK, hook=rival)]), tombstones(1, 2))
    assert caught.value.code == ErrorCode.FENCE_GAP


@pytest.mark.parametrize("fault", [Fault.UNKNOWN_BEFORE, Fault.UNKNOWN_AFTER])
def test_a_stage_of_unknown_outcome_is_finished_by_a_rerun(store: MemoryStore, fault: Fault) -> None:
    with pytest.raises(OutcomeUnknownError):
        put(FaultyStore(store, [Rule(operation="swap", fault=fault)]), tombstones(1, 2), operation_id="op")
    assert put(store, tombstones(1, 2), operation_id="op").staged == 2


def test_a_run_that_was_checked_ahead_goes_on_at_once(store: MemoryStore) -> None:
    run = start(store, gates.DATASET, "prod", gates.call(), run_id="run-1")
    put(store, tombstones(1, 3))
    gates.attach_report(store, ahead(read_gate(store, gates.DATASET).body))
    done = take_staged(store)
    assert run.permit in done.closed_permits
    renewed = renew(store, gates.DATASET, "run-1", gates.call())
    assert renewed.state == "open"
    assert renewed.permit != run.permit


def test_a_hit_in_staged_entries_counts_once_they_are_taken(store: MemoryStore) -> None:
    start(store, gates.DATASET, "prod", gates.call(), run_id="run-1")
    put(store, tombstones(1, 3))
    gates.attach_report(store, ahead(read_gate(store, gates.DATASET).body, hits=1))
    assert start(store, gates.DATASET, "prod", gates.call(), run_id="run-2").state == "open"
    take_staged(store)
    with pytest.raises(RefusedError) as caught:
        renew(store, gates.DATASET, "run-1", gates.call())
    assert caught.value.code == ErrorCode.PERMIT_HIT


@pytest.mark.parametrize(("hits", "code"), [(0, ErrorCode.PERMIT_RECHECK), (1, ErrorCode.PERMIT_RECHECK)])
def test_a_report_over_staged_entries_that_were_replaced_does_not_count(
    store: MemoryStore, hits: int, code: ErrorCode
) -> None:
    start(store, gates.DATASET, "prod", gates.call(), run_id="run-1")
    put(store, tombstones(1, 3))
    gates.attach_report(store, ahead(read_gate(store, gates.DATASET).body, hits=hits))
    put(store, [tombstone(1, "another"), *tombstones(2, 3)], again=True)
    take_staged(store)
    with pytest.raises(RefusedError) as caught:
        renew(store, gates.DATASET, "run-1", gates.call())
    assert caught.value.code == code


def test_a_hit_in_staged_entries_says_nothing_about_the_fences_of_now(store: MemoryStore) -> None:
    start(store, gates.DATASET, "prod", gates.call(), run_id="run-1")
    put(store, tombstones(1, 3))
    gates.attach_report(store, ahead(read_gate(store, gates.DATASET).body, hits=1))
    benchmark = BenchmarkEntry(sequence=1, benchmark="b", content_digest=ROOT, text_digest=None, shingles=None)
    advance(store, gates.DATASET, "benchmarks", [benchmark], gates.call())
    with pytest.raises(RefusedError) as caught:
        renew(store, gates.DATASET, "run-1", gates.call())
    assert caught.value.code == ErrorCode.PERMIT_RECHECK


def test_a_hit_in_replaced_entries_is_behind_the_reports_that_passed_since(store: MemoryStore) -> None:
    start(store, gates.DATASET, "prod", gates.call(), run_id="run-1")
    put(store, tombstones(1, 3))
    gates.attach_report(store, ahead(read_gate(store, gates.DATASET).body, hits=1))
    put(store, [tombstone(1, "another"), *tombstones(2, 3)], again=True)
    take_staged(store)
    gates.attach_report(store, gates.a_report(read_gate(store, gates.DATASET).body, ROOT))
    take(store, tombstones(4, 4))
    with pytest.raises(RefusedError) as caught:
        renew(store, gates.DATASET, "run-1", gates.call())
    assert caught.value.code == ErrorCode.PERMIT_RECHECK


def test_what_stays_staged_is_what_was_staged_and_follows() -> None:
    body, staged = known(), Staged(watermark=5, log=descriptor("staged"))
    body = replace(body, tombstones=Fence(watermark=0, log=None, staged=staged))
    request = replace(advance_request(body, by=3), staged=staged.log, keep=staged)
    rest = LogFacts(previous=request.log, log=staged.log, first=4, last=5)
    given = dataclasses.replace(advance_evidence(request), rest=rest)
    assert accepted(body, request, given).body.tombstones.staged == staged
    other = Staged(watermark=6, log=descriptor("other"))
    for keep, behind in (
        (other, LogFacts(previous=request.log, log=other.log, first=4, last=6)),
        (staged, LogFacts(previous=request.previous, log=staged.log, first=4, last=5)),
        (staged, None),
    ):
        wrong = dataclasses.replace(given, rest=behind)
        assert refused(body, replace(request, keep=keep), wrong) == ErrorCode.FENCE_STAGED


def test_a_report_that_begins_in_replaced_entries_leads_nowhere(store: MemoryStore) -> None:
    """The entries behind are the same ones; those before are not."""
    start(store, gates.DATASET, "prod", gates.call(), run_id="run-1")
    put(store, tombstones(1, 3))
    first = ahead(read_gate(store, gates.DATASET).body)
    gates.attach_report(store, first)
    put(store, [tombstone(1, "another"), *tombstones(2, 3)], again=True)
    put(store, tombstones(4, 4))
    staged = fence(store).staged
    assert staged is not None
    end = Fence(watermark=4, log=staged.log)
    body = read_gate(store, gates.DATASET).body
    behind = replace(
        gates.log_range(4, 4, end), after=fences.read_staged(store, fence(store), "tombstones").ends[3].digest
    )
    ranges = gates.Ranges(tombstones=behind, benchmarks=gates.log_range(0, 0, None))
    assert behind.after != first.tombstones.log
    gates.attach_report(store, gates.a_report(body, ROOT, ranges=ranges, kind="delta"))
    take_staged(store)
    with pytest.raises(RefusedError) as caught:
        renew(store, gates.DATASET, "run-1", gates.call())
    assert caught.value.code == ErrorCode.PERMIT_RECHECK

"""The life of a run on a store."""

from typing import Any

import pytest
from msgspec.structs import replace

from shardrel.canonical import json
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.drills.recording_store import RecordingStore
from shardrel.errors import ErrorCode, IntegrityError, NotFoundError, OutcomeUnknownError, RefusedError
from shardrel.gate import runs
from shardrel.gate.admit import admit
from shardrel.gate.fence import advance
from shardrel.gate.head import read_transition
from shardrel.gate.run_records import find_record, record_of
from shardrel.gate.view import read_gate
from shardrel.records.fence import TombstoneEntry
from shardrel.records.report import TRANSITION_PAYLOAD
from shardrel.store.layout import run_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_by_digest, put
from shardrel.trust.envelope import seal
from tests.support import gates

ROOT = gates.a_root("one")
OTHER = gates.a_root("two")
DATASET = gates.DATASET


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    gates.new_gate(store)
    for root in (OTHER, ROOT):
        gates.stage(store, root)
        gates.attest(store, root)
    admit(store, DATASET, ROOT, "prod", gates.call())
    return store


def close_permits(store: MemoryStore) -> None:
    last = read_gate(store, DATASET).body.tombstones.watermark + 1
    entry = TombstoneEntry(
        sequence=last, sample_id="s", source_id=None, source_version=None, content_digest=None, reason=None
    )
    advance(store, DATASET, "tombstones", [entry], gates.call())


def test_a_run_is_pinned_and_recorded(store: MemoryStore) -> None:
    started = runs.start(store, DATASET, "prod", gates.call(), run_id="run-1")
    record = find_record(store, "run-1")
    assert record == started.record
    assert (record.root, record.generation, record.permit) == (ROOT, 1, started.permit)
    assert record.transition == read_gate(store, DATASET).state.head
    assert (started.state, runs.show(store, DATASET, "run-1")) == ("open", started)


def test_nothing_in_a_run_follows_the_alias(store: MemoryStore) -> None:
    started = runs.start(store, DATASET, "prod", gates.call(), run_id="run-1")
    admit(store, DATASET, OTHER, "prod", gates.call())
    assert runs.show(store, DATASET, "run-1") == started


def test_a_run_without_an_id_gets_one_that_a_retry_finds(store: MemoryStore) -> None:
    first = runs.start(store, DATASET, "prod", gates.call(operation_id="op"))
    again = runs.start(store, DATASET, "prod", gates.call(operation_id="op"))
    other = runs.start(store, DATASET, "prod", gates.call())
    assert first == again
    assert first.run_id != other.run_id
    assert len(read_gate(store, DATASET).body.runs) == 2


def test_a_run_id_is_not_used_twice_also_not_after_its_end(store: MemoryStore) -> None:
    runs.start(store, DATASET, "prod", gates.call(), run_id="run-1")
    for _ in range(2):
        with pytest.raises(RefusedError) as caught:
            runs.start(store, DATASET, "prod", gates.call(), run_id="run-1")
        assert caught.value.code == ErrorCode.GATE_RUN_EXISTS
        if runs.show(store, DATASET, "run-1").state == "open":
            runs.finish(store, DATASET, "run-1", gates.call())


def test_a_record_that_a_crash_left_unwritten_is_made_by_the_next_reader(store: MemoryStore) -> None:
    lost = FaultyStore(store, [Rule(operation="create", prefix="runs/", fault=Fault.UNKNOWN_BEFORE)])
    with pytest.raises(OutcomeUnknownError):
        runs.start(lost, DATASET, "prod", gates.call(operation_id="op"), run_id="run-1")
    assert find_record(store, "run-1") is None
    head = read_gate(store, DATASET).state.head
    admit(store, DATASET, OTHER, "prod", gates.call())
    shown = runs.show(store, DATASET, "run-1")
    assert (shown.root, shown.record.transition) == (ROOT, head)
    assert runs.start(store, DATASET, "prod", gates.call(operation_id="op"), run_id="run-1").record == shown.record


def test_a_closed_permit_is_shown_with_its_reason_and_renewed_after_a_recheck(store: MemoryStore) -> None:
    started = runs.start(store, DATASET, "prod", gates.call(), run_id="run-1")
    close_permits(store)
    shown = runs.show(store, DATASET, "run-1")
    assert (shown.state, shown.permit) == ("closed", None)
    assert shown.closed is not None
    assert (shown.closed.by, shown.closed.watermark) == ("tombstones", 1)
    with pytest.raises(RefusedError) as caught:
        runs.renew(store, DATASET, "run-1", gates.call())
    assert caught.value.code == ErrorCode.PERMIT_RECHECK
    gates.attach_report(store, gates.a_report(read_gate(store, DATASET).body, ROOT))
    renewed = runs.renew(store, DATASET, "run-1", gates.call())
    assert (renewed.root, renewed.state) == (ROOT, "open")
    assert renewed.permit not in (None, started.permit)
    assert runs.show(store, DATASET, "run-1").permit == renewed.permit


def test_renewing_an_open_permit_moves_nothing(store: MemoryStore) -> None:
    started = runs.start(store, DATASET, "prod", gates.call(), run_id="run-1")
    recording = RecordingStore(store)
    assert runs.renew(recording, DATASET, "run-1", gates.call()) == started
    assert {operation for operation, _ in recording.requests} == {"read"}


def test_a_renewal_does_not_read_the_history_since_the_run_began(store: MemoryStore) -> None:
    runs.start(store, DATASET, "prod", gates.call(), run_id="run-1")
    close_permits(store)
    gates.attach_report(store, gates.a_report(read_gate(store, DATASET).body, ROOT))
    counts = []
    for _ in range(2):
        recording = RecordingStore(store)
        assert runs.show(recording, DATASET, "run-1").state == "closed"
        counts.append(len(recording.requests))
        for _ in range(5):
            gates.stage(store, gates.a_root("another"))
    assert counts == [3, 3]
    recording = RecordingStore(store)
    runs.renew(recording, DATASET, "run-1", gates.call())
    envelopes = sum(key.startswith("attestations/") for operation, key in recording.requests if operation == "read")
    assert len(recording.requests) == 7 + envelopes


def test_a_run_ends_once(store: MemoryStore) -> None:
    runs.start(store, DATASET, "prod", gates.call(), run_id="run-1")
    assert runs.finish(store, DATASET, "run-1", gates.call(operation_id="op")).state == "finished"
    assert runs.finish(store, DATASET, "run-1", gates.call(operation_id="op")).state == "finished"
    assert runs.show(store, DATASET, "run-1").state == "finished"
    for verb in (runs.finish, runs.cancel, runs.renew):
        with pytest.raises(RefusedError) as caught:
            verb(store, DATASET, "run-1", gates.call())
        assert caught.value.code == ErrorCode.GATE_RUN_ENDED


def test_a_cancelled_run_gives_up_its_permit(store: MemoryStore) -> None:
    started = runs.start(store, DATASET, "prod", gates.call(), run_id="run-1")
    assert runs.cancel(store, DATASET, "run-1", gates.call()).state == "cancelled"
    assert started.permit not in read_gate(store, DATASET).body.permits


def test_an_unknown_run_is_told_apart(store: MemoryStore) -> None:
    for verb in (lambda: runs.show(store, DATASET, "none"), lambda: runs.finish(store, DATASET, "none", gates.call())):
        with pytest.raises(NotFoundError) as caught:
            verb()
        assert caught.value.code == ErrorCode.GATE_NO_RUN


def test_a_run_of_another_gate_is_not_this_gates(store: MemoryStore) -> None:
    runs.start(store, DATASET, "prod", gates.call(), run_id="run-1")
    gates.new_gate(store, dataset="other")
    with pytest.raises(NotFoundError) as caught:
        runs.show(store, "other", "run-1")
    assert caught.value.code == ErrorCode.GATE_NO_RUN


@pytest.mark.parametrize("renewed", [False, True])
@pytest.mark.parametrize("change", [{"opened_permit": "f" * 64}, {"tombstone_watermark": 9}, {"benchmark_fence": 9}])
def test_a_record_that_names_a_start_of_somebody_elses_making_is_refused(
    store: MemoryStore, change: dict[str, Any], renewed: bool
) -> None:
    record = runs.start(store, DATASET, "prod", gates.call(), run_id="run-1").record
    if renewed:
        close_permits(store)
    true = read_transition(get_by_digest(store, record.transition))
    forged = replace(true, effects=replace(true.effects, **change))
    envelope = seal(json.encode(forged), TRANSITION_PAYLOAD, [gates.key("publisher")])
    named = put(store, envelope, "application/json")[0].digest
    fields = {"permit" if name == "opened_permit" else name: value for name, value in change.items()}
    stored = store.read(run_key("run-1"), max_bytes=1 << 20)
    assert stored is not None
    store.swap(run_key("run-1"), json.encode(replace(record, transition=named, **fields)), stored.token)
    with pytest.raises(IntegrityError) as caught:
        record_of(store, read_gate(store, DATASET), "run-1")
    assert caught.value.code == ErrorCode.GATE_HISTORY

"""Evidence that is kept over lost swaps, and evidence that must not be."""

import pytest

from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.drills.recording_store import RecordingStore
from shardrel.errors import ErrorCode, RefusedError
from shardrel.gate import admit, runs
from shardrel.gate.log import read_entries
from shardrel.store.memory import MemoryStore
from tests.support.gates import DATASET, a_root, call, new_gate
from tests.support.runs import admit_root

ROOT = a_root("one")


@pytest.fixture
def inner() -> MemoryStore:
    store = MemoryStore()
    new_gate(store)
    admit_root(store, ROOT)
    return store


def test_a_run_id_that_began_and_ended_meanwhile_is_taken(inner: MemoryStore) -> None:
    """Found by exploration: kept evidence said that there is no record of a run of this id."""

    def another(_: str) -> None:
        runs.start(inner, DATASET, "prod", call(), run_id="night")
        runs.finish(inner, DATASET, "night", call())

    store = FaultyStore(inner, [Rule(operation="swap", fault=Fault.HOOK, hook=another)])
    with pytest.raises(RefusedError) as caught:
        runs.start(store, DATASET, "prod", call(), run_id="night")
    assert caught.value.code == ErrorCode.GATE_RUN_EXISTS
    assert [entry.kind for entry in read_entries(inner, DATASET)].count("start-run") == 1


def test_what_is_attached_is_read_once_however_often_the_swap_is_lost(inner: MemoryStore) -> None:
    def another(_: str) -> None:
        admit.admit(inner, DATASET, ROOT, "other", call())

    recording = RecordingStore(inner)
    store = FaultyStore(recording, [Rule(operation="swap", fault=Fault.HOOK, hook=another, times=3)])
    admit.admit(store, DATASET, ROOT, "prod", call())
    assert [operation for operation, _ in recording.requests].count("list") == 1

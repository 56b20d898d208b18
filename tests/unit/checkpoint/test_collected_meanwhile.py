"""A collection takes objects of a checkpoint while it is written: it is never admitted as if it were whole."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from shardrel.checkpoint.preflight import read_commit
from shardrel.checkpoint.save import Saved
from shardrel.errors import ErrorCode
from shardrel.gate.call import perform
from shardrel.gate.facts import Evidence
from shardrel.gate.view import read_gate
from shardrel.records.descriptor import TENSOR_BYTES
from shardrel.records.sweep import Condemned, SweepPlan
from shardrel.records.transition import EndSweep, Retire
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.layout import object_digest, object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import put, put_record, unversioned
from shardrel.store.port import Store
from tests.support.checkpoints import ROOT, RUN, assert_equal_state, load_on, save_on, state
from tests.support.gates import DATASET, call
from tests.support.ranks import all_good, failures
from tests.support.runs import started_run

T = TypeVar("T")
NOTHING = Evidence(signers=frozenset())


@pytest.fixture
def store() -> MemoryStore:
    """A gate with an open run."""
    store = MemoryStore()
    started_run(store, ROOT, RUN)
    return store


def collect(store: Store, digest: str, *, ended: bool = True) -> None:
    """What gc does of one object, without asking whether it may."""
    stored = store.read(object_key(digest), max_bytes=1 << 26)
    assert stored is not None
    body = read_gate(store, DATASET).body
    plan = SweepPlan(
        dataset=DATASET,
        gate_id=body.gate_id,
        after=body.sequence,
        previous=body.retention.plan,
        objects=(Condemned(digest=digest, version=stored.version),),
        unnamed=(),
    )
    request = Retire(
        after=body.sequence,
        plan=unversioned(put_record(store, plan)),
        objects=1,
        roots=(),
        publications=(),
        runs=(),
        owner="gc",
    )
    perform(store, DATASET, request, call(), lambda _: NOTHING)
    if ended:
        end(store, digest, stored.version)


def end(store: Store, digest: str, version: str) -> None:
    """Delete it, and end the sweep."""
    store.delete(object_key(digest), version)
    boundary = read_gate(store, DATASET).body.retention.boundary
    perform(store, DATASET, EndSweep(boundary=boundary), call(), lambda _: NOTHING)


class Interrupted(ForwardingStore):
    """Something happens behind the first create of a key that begins so, or of a manifest."""

    def __init__(self, inner: Store, at: str, act: Callable[[str], None]) -> None:
        super().__init__(inner)
        self._at, self._act = at, act
        self.tensors: list[str] = []
        self._over = False

    def create(self, key, data):  # type: ignore[no-untyped-def]
        outcome = self.inner.create(key, data)
        manifest = bytes(data[:1]) == b"{" and b"training.shard.checkpoint.v1" in bytes(data)
        if object_digest(key) is not None and bytes(data[:1]) != b"{":
            self.tensors.append(str(object_digest(key)))
        if not self._over and (manifest if self._at == "manifest" else key.startswith(self._at)):
            self._over = True
            self._act(self.tensors[0])
        return outcome


def interrupted(store: Store, at: str, act: Callable[[str], None], step: int = 1) -> list[Saved | BaseException]:
    return save_on(Interrupted(store, at, act), step)


def test_what_was_taken_before_the_record_has_its_name_is_saved_again(store: MemoryStore) -> None:
    answers = interrupted(store, "manifest", lambda tensor: collect(store, tensor))
    assert {failure.code for failure in failures(answers)} == {ErrorCode.RETENTION_SWEPT}
    assert read_commit(store, RUN, 0) is None
    [saved] = all_good(save_on(store, 1))
    assert saved.generation == 0
    [restored] = all_good(load_on(store))
    assert_equal_state(restored.state, state(1))


def test_what_was_taken_behind_it_is_passed_over_and_the_run_goes_on(store: MemoryStore) -> None:
    all_good(save_on(store, 1))
    answers = interrupted(store, "runs/", lambda tensor: collect(store, tensor), step=2)
    assert {failure.code for failure in failures(answers)} == {ErrorCode.RETENTION_SWEPT}
    [restored] = all_good(load_on(store))
    assert (restored.generation, restored.passed_over) == (0, ((1, ErrorCode.CHECKPOINT_MISSING),))
    assert_equal_state(restored.state, state(1))
    [saved] = all_good(save_on(store, 3))
    assert saved.generation == 2
    [restored] = all_good(load_on(store))
    assert_equal_state(restored.state, state(3))


def test_a_collection_of_something_else_is_nothing_to_it(store: MemoryStore) -> None:
    other = put(store, b"of a run that was cancelled", TENSOR_BYTES)[0].digest
    [saved] = all_good(interrupted(store, "manifest", lambda _: collect(store, other)))
    assert saved.generation == 0


def test_what_an_open_sweep_has_condemned_is_not_taken_for_written(store: MemoryStore) -> None:
    """The attempt begins while the deletion is still to come, and finds the tensor there."""
    elsewhere = Interrupted(store, "never", lambda _: None)
    all_good(save_on(elsewhere, 1))
    tensor = elsewhere.tensors[0]
    found = store.read(object_key(tensor), max_bytes=1 << 26)
    assert found is not None
    other = MemoryStore()
    started_run(other, ROOT, RUN)
    version = put(other, found.data, TENSOR_BYTES)[0].object_version
    collect(other, tensor, ended=False)
    assert {failure.code for failure in failures(save_on(other, 1))} == {ErrorCode.RETENTION_SWEPT}
    end(other, tensor, str(version))
    [saved] = all_good(save_on(other, 1))
    assert saved.generation == 0

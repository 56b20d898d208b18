"""What a long history, and a store full of leftovers, cost in requests."""

import copy
import json as plain_json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import pytest

from shardrel.drills.recording_store import RecordingStore
from shardrel.gate.admit import admit
from shardrel.gate.gc import Collected, collect
from shardrel.gate.history import read_history
from shardrel.gate.view import read_gate
from shardrel.store.layout import object_key, operation_prefix
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import put
from shardrel.store.port import ObjectKey, Store
from tests.support import gates
from tests.support.retained import Retained, retained

ADMISSIONS = 120
T = TypeVar("T")


@pytest.fixture(scope="module")
def long_history() -> MemoryStore:
    """A gate with a history that is worth reading ahead."""
    store, root = MemoryStore(), gates.a_root("one")
    gates.new_gate(store)
    gates.stage(store, root)
    gates.attest(store, root)
    for _ in range(ADMISSIONS):
        admit(store, gates.DATASET, root, "prod", gates.call())
    return store


@dataclass
class Waiting(RecordingStore):
    """Also tells which requests the caller's own thread waited for, one after the other."""

    waited: list[tuple[str, str]] = field(default_factory=list)
    caller: int = field(default_factory=threading.get_ident)

    def around(self, operation: str, key: str, request: Callable[[], T]) -> T:
        if threading.get_ident() == self.caller:
            self.waited.append((operation, key))
        return super().around(operation, key, request)


def copied(store: MemoryStore) -> MemoryStore:
    other = MemoryStore()
    other._versions, other._minted = copy.deepcopy(store._versions), store._minted
    return other


def test_a_long_history_is_read_many_links_at_a_time_and_each_once(long_history: MemoryStore) -> None:
    store = Waiting(long_history)
    view = read_gate(store, gates.DATASET)
    assert len(read_history(store, view)) == view.body.sequence > ADMISSIONS
    links = Counter(key for operation, key in store.requests if operation == "read" and key.startswith("objects/"))
    assert set(links.values()) == {1}
    assert len(links) <= view.body.sequence + 1  # the first policy
    intents = sum(key.startswith(operation_prefix(gates.DATASET)) for operation, key in store.requests)
    assert intents <= view.body.sequence + 1
    # The gate, the listing of intents, the first policy and the head; no other link was waited for alone.
    assert len(store.waited) <= 4


@pytest.mark.parametrize("harm", ["absent", "nonsense", "misleading"])
def test_intents_are_only_a_hint(long_history: MemoryStore, harm: str) -> None:
    store = copied(long_history)
    whole = [link.digest for link in read_history(store, read_gate(store, gates.DATASET))]
    keys = sorted(store.list(operation_prefix(gates.DATASET)))
    misleading = store.read(keys[0], max_bytes=4096)
    assert misleading is not None
    for key in keys[::2]:
        intent = store.read(key, max_bytes=4096)
        assert intent is not None
        store.delete(key, intent.version)
        if harm != "absent":
            store.create(key, b"{" if harm == "nonsense" else misleading.data)
    assert [link.digest for link in read_history(store, read_gate(store, gates.DATASET))] == whole


@pytest.fixture(scope="module")
def one_release() -> Retained:
    return retained(releases=1)


@pytest.fixture
def scene(one_release: Retained) -> Retained:
    assert isinstance(one_release.store, MemoryStore)
    made = copy.copy(one_release.made)
    made.store = copied(one_release.store)
    return Retained(made, list(one_release.roots))


def collected(scene: Retained) -> tuple[Collected, RecordingStore]:
    store = RecordingStore(scene.store)
    return collect(store, scene.made.dataset, scene.call(), generations=0), store


def left_behind(store: Store, data: bytes) -> ObjectKey:
    return object_key(put(store, data, "application/octet-stream")[0].digest)


def requests_for(store: RecordingStore, key: ObjectKey) -> list[str]:
    return [operation for operation, asked in store.requests if asked == key]


def test_a_leftover_is_looked_at_once_and_never_read(scene: Retained) -> None:
    tensors = [left_behind(scene.store, bytes([number]) * (1 << 20)) for number in range(1, 6)]
    texts = [left_behind(scene.store, b"{" + bytes([number]) * 50) for number in range(1, 6)]
    done, store = collected(scene)
    assert {object_key(one.digest) for one in done.objects} == {*tensors, *texts}
    for key in (*tensors, *texts):
        # The second look reads back what became of the deletion.
        assert requests_for(store, key) == ["look", "delete", "look"]


def test_what_waits_is_not_looked_at_again(scene: Retained) -> None:
    snapshot = object_key(scene.declare(5))
    first, store = collected(scene)
    assert (first.objects, len(requests_for(store, snapshot))) == ((), 2)
    scene.release(6)
    second, store = collected(scene)
    assert snapshot in {object_key(one.digest) for one in second.objects}
    assert requests_for(store, snapshot) == ["delete", "look"]


@pytest.mark.parametrize(
    ("schema", "goes"), [("training.shard.checkpoint.v1", True), ("training.shard.policy.v1", False)]
)
def test_a_record_that_is_longer_than_a_look_is_read_for_its_kind(scene: Retained, schema: str, goes: bool) -> None:
    key = left_behind(scene.store, plain_json.dumps({"padding": "x" * (100 << 10), "schema": schema}).encode())
    done, store = collected(scene)
    assert (key in {object_key(one.digest) for one in done.objects}) == goes
    assert requests_for(store, key)[:2] == ["look", "read"]

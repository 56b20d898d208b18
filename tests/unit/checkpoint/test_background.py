"""A save in the background says that it is done when the gate has admitted it, and not before."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
import torch

from shardrel.checkpoint.background import BackgroundSaver
from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.preflight import read_commit
from shardrel.checkpoint.save import Saved, save
from shardrel.checkpoint.staging import Staging
from shardrel.errors import ErrorCode, ShardrelError
from shardrel.gate.view import read_gate
from shardrel.records.checkpoint import Cut
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.memory import MemoryStore
from tests.support.checkpoints import ORDER, ROOT, RUN, assert_equal_state, cut, load_on, state
from tests.support.gates import DATASET, key
from tests.support.ranks import all_good
from tests.support.runs import advance_tombstones, started_run

T = TypeVar("T")


class HeldStore(ForwardingStore):
    """Lets a commit record be installed only when told to."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.reached, self.go = threading.Event(), threading.Event()

    def around(self, operation: str, key: str, request: Callable[[], T]) -> T:
        if operation == "create" and "/commits/" in key:
            self.reached.set()
            assert self.go.wait(30)
        return request()


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    started_run(store, ROOT, RUN)
    return store


@contextmanager
def saver(store: Any) -> Iterator[BackgroundSaver]:
    def write(staged: dict[str, Any], at: Cut) -> Saved:
        return save(SoloGroup(), store, staged, dataset=DATASET, run=RUN, cut=at, order=ORDER, signer=key("admin"))

    with BackgroundSaver(write) as made:
        yield made


def test_it_is_pending_until_the_gate_has_admitted_and_saves_the_state_of_the_call(store: MemoryStore) -> None:
    held = HeldStore(store)
    mine = state(1)
    with saver(held) as background:
        pending = background.start(mine, cut(1))
        mine["model"]["large"].fill_(7)
        mine["scheduler"]["last"] = 99
        assert held.reached.wait(30)
        assert pending.outcome() == "pending"
        assert read_gate(store, DATASET).body.runs[RUN].head is None
        held.go.set()
        assert pending.result().generation == 0
        assert pending.outcome() == "admitted"
        assert pending.blocked.seconds >= pending.blocked.copying > 0
    restored = all_good(load_on(store))[0]
    assert restored is not None
    assert_equal_state(restored.state, state(1))


def test_the_next_save_waits_for_the_one_before(store: MemoryStore) -> None:
    held = HeldStore(store)
    held.go.set()
    with saver(held) as background:
        first = background.start(state(1), cut(1))
        second = background.start(state(2), cut(2))
        assert first.outcome() == "admitted"
        assert second.result().generation == 1


def test_a_refused_save_says_so_and_the_next_call_raises_what_nobody_looked_at(store: MemoryStore) -> None:
    with saver(store) as background:
        background.start(state(1), cut(1)).result()
        advance_tombstones(store, 1)
        pending = background.start(state(2), cut(2))
        with pytest.raises(ShardrelError) as raised:
            background.start(state(3), cut(3))
        assert raised.value.code == ErrorCode.PERMIT_CLOSED
        assert pending.outcome() == "refused"
    assert read_commit(store, RUN, 1) is None


def test_the_end_of_the_context_raises_a_failure_that_nobody_looked_at(store: MemoryStore) -> None:
    with pytest.raises(ShardrelError) as raised, saver(store) as background:
        background.start({"bad": object()}, cut(1))
    assert raised.value.code == ErrorCode.CHECKPOINT_STATE_TYPE


def test_copies_use_the_same_memory_again() -> None:
    staging = Staging()
    one = staging.copy({"a": torch.ones(3), "b": [torch.zeros(2), (1, "x")]})
    place = one["a"].data_ptr()
    two = staging.copy({"a": torch.full((3,), 2.0)})
    assert two["a"].data_ptr() == place
    assert torch.equal(two["a"], torch.full((3,), 2.0))
    three = staging.copy({"a": torch.ones(4)})
    assert three["a"].shape == (4,)

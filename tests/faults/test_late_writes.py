"""A write that was on its way when its sender died arrives later: behind a recovery, or behind the next checkpoint."""

from collections.abc import Callable

import pytest

from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.recovery import admitted_in_history
from shardrel.checkpoint.save import save
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.memory import MemoryStore
from shardrel.store.port import CreateOutcome, ObjectKey, SwapOutcome, Token
from tests.support.checkpoints import ORDER, ROOT, RUN, assert_equal_state, cut, load_on, save_on, state
from tests.support.gates import DATASET, key
from tests.support.ranks import all_good
from tests.support.runs import started_run

Late = Callable[[], CreateOutcome | SwapOutcome]


class Dead(BaseException):
    """Ends the sender as far as a test can."""


class LosingStore(ForwardingStore):
    """At one write its sender dies; the request is still on its way, in ``late``."""

    def __init__(self, inner: MemoryStore, at: int) -> None:
        super().__init__(inner)
        self.at = at
        self.sent = 0
        self.late: Late | None = None

    def create(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        held = bytes(data)
        self._send(lambda: self.inner.create(key, held))
        return super().create(key, data)

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        self._send(lambda: self.inner.swap(key, data, expected))
        return super().swap(key, data, expected)

    def _send(self, write: Late) -> None:
        self.sent += 1
        if self.sent == self.at:
            self.late = write
            raise Dead


def begun() -> MemoryStore:
    store = MemoryStore()
    started_run(store, ROOT, RUN)
    all_good(save_on(store, 1))
    return store


def save_through(store: LosingStore) -> None:
    save(SoloGroup(), store, state(2), dataset=DATASET, run=RUN, cut=cut(2), order=ORDER, signer=key("admin"))


def count() -> int:
    store = LosingStore(begun(), 0)
    save_through(store)
    return store.sent


def restored_at(store: MemoryStore) -> tuple[int, int]:
    """Generation and step of what a fresh job goes on from; its state is that of the step."""
    found = all_good(load_on(store))[0]
    assert found is not None
    assert found.passed_over == ()
    assert_equal_state(found.state, state(found.cut.step))
    return found.generation, found.cut.step


@pytest.mark.parametrize("saved_between", [False, True], ids=["behind the recovery", "behind the next checkpoint"])
@pytest.mark.parametrize("at", range(1, count() + 1))
def test_a_late_write_is_taken_up_or_comes_to_nothing(at: int, saved_between: bool) -> None:
    store = begun()
    losing = LosingStore(store, at)
    with pytest.raises(Dead):
        save_through(losing)
    generation, step = restored_at(store)
    if saved_between:
        all_good(save_on(store, step + 1))
    before = admitted_in_history(store, DATASET, RUN)
    assert losing.late is not None
    losing.late()

    now = admitted_in_history(store, DATASET, RUN)
    assert {number: now[number] for number in before} == before, "what was admitted stays"
    found, reached = restored_at(store)
    assert (found, reached) >= (generation + saved_between, step + saved_between)
    all_good(save_on(store, 5))
    assert restored_at(store) == (found + 1, 5)
    assert sorted(admitted_in_history(store, DATASET, RUN)) == list(range(found + 2))

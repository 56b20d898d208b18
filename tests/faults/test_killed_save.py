"""A save that dies at any write leaves a run that recovers to one complete generation and goes on."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.save import save
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.local import LocalStore
from shardrel.store.memory import MemoryStore
from tests.support.checkpoints import ORDER, ROOT, RUN, assert_equal_state, cut, load_on, save_on, state
from tests.support.gates import DATASET, key
from tests.support.ranks import all_good
from tests.support.runs import started_run

T = TypeVar("T")


class DyingStore(ForwardingStore):
    """Kills its process, as far as a test can, at one write: before it lands, or after."""

    def __init__(self, inner: MemoryStore, at: int, *, landed: bool) -> None:
        super().__init__(inner)
        self.at = at
        self.landed = landed
        self.keys: list[str] = []

    def around(self, operation: str, key: str, request: Callable[[], T]) -> T:
        return self._write(key, request) if operation in ("create", "swap") else request()

    def _write(self, key: str, write: Callable[[], T]) -> T:
        self.keys.append(key)
        if len(self.keys) != self.at:
            return write()
        if self.landed:
            write()
        raise KeyboardInterrupt


def save_through(store: DyingStore, step: int) -> None:
    save(SoloGroup(), store, state(step), dataset=DATASET, run=RUN, cut=cut(step), order=ORDER, signer=key("admin"))


def a_run_with_one_checkpoint() -> MemoryStore:
    store = MemoryStore()
    started_run(store, ROOT, RUN)
    all_good(save_on(store, 1))
    return store


def writes_of_a_save() -> list[str]:
    counting = DyingStore(a_run_with_one_checkpoint(), 0, landed=False)
    save_through(counting, 2)
    return counting.keys


WRITES = len(writes_of_a_save())


def test_the_order_of_writes_is_content_before_authority() -> None:
    kinds = ["commit" if "/commits/" in key else key.split("/")[0] for key in writes_of_a_save()]
    assert kinds[-4:] == ["commit", "gates", "objects", "gates"]  # the record, the intent, the envelope, the swap
    assert set(kinds[:-4]) == {"objects"}


@pytest.mark.parametrize("landed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, WRITES + 1))
def test_a_save_killed_at_any_write_is_either_there_or_not(at: int, landed: bool) -> None:
    store = a_run_with_one_checkpoint()
    with pytest.raises(KeyboardInterrupt):
        save_through(DyingStore(store, at, landed=landed), 2)

    restored = all_good(load_on(store, 2))[0]
    assert restored is not None
    installed = (at, landed) >= (WRITES - 3, True)
    step = 2 if installed else 1
    assert (restored.cut.step, restored.generation, restored.passed_over) == (step, step - 1, ())
    assert_equal_state(restored.state, state(step))

    saved = all_good(save_on(store, 3, 2))[0]
    assert saved.generation == restored.generation + 1
    again = all_good(load_on(store))[0]
    assert again is not None
    assert_equal_state(again.state, state(3))


def test_a_process_killed_in_a_background_save_has_claimed_nothing_and_leaves_nothing_selected(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    started_run(store, ROOT, RUN)
    (tmp_path / "key.pem").write_bytes(key("admin").to_pem())
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.background_job", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "first\n"), done.stderr
    restored = all_good(load_on(store))[0]
    assert restored is not None
    assert (restored.generation, restored.helped, restored.passed_over) == (0, False, ())
    assert_equal_state(restored.state, state(1))

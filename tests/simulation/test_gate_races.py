"""Many who move one gate at once: every move is there exactly once, and none is lost."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.errors import OutcomeUnknownError, ShardrelError
from shardrel.gate.admit import admit
from shardrel.gate.call import Call
from shardrel.gate.log import read_entries
from shardrel.gate.view import read_gate
from shardrel.store.local import LocalStore
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Store
from shardrel.trust.keys import SigningKey, from_pem
from tests.support import gates

ROOT = gates.a_root("one")
MOVES = 5
# Not forked from here: other tests of this process may have left threads of their libraries.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["shardrel.gate.admit", "shardrel.store.local", "shardrel.drills.faulty_store"])


def prepared(store: Store) -> Store:
    gates.new_gate(store)
    gates.stage(store, ROOT)
    gates.attest(store, ROOT)
    return store


def a_call(operation_id: str, key: SigningKey | None = None) -> Call:
    return Call(signers=[key or gates.key("admin")], recorded_at=gates.NOW, operation_id=operation_id, pending=None)


def check_history(store: Store, operations: set[str]) -> None:
    """Each operation has one effect, and the generations count them without a gap."""
    entries = read_entries(store, gates.DATASET)
    moves = [entry for entry in entries if entry.kind == "admit"]
    assert sorted(entry.operation_id for entry in moves) == sorted(operations)
    assert [entry.effects.generation for entry in moves] == list(range(1, len(operations) + 1))
    assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
    assert read_gate(store, gates.DATASET).body.aliases["prod"].generation == len(operations)


def until_known(move: Callable[[], object], tries: int = 50) -> None:
    """Run the same command again while its outcome is unknown, as its exit status asks."""
    for _ in range(tries):
        try:
            move()
        except OutcomeUnknownError:
            continue
        return
    raise AssertionError("the outcome stayed unknown")


def test_threads_that_race_lose_no_move() -> None:
    store = prepared(MemoryStore())
    operations = {f"t{thread}-{at}" for thread in range(4) for at in range(MOVES)}

    def moves(thread: int) -> None:
        for at in range(MOVES):
            admit(store, gates.DATASET, ROOT, "prod", a_call(f"t{thread}-{at}"))

    threads = [threading.Thread(target=moves, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_history(store, operations)


@pytest.mark.parametrize("seed", range(3))
def test_threads_whose_answers_get_lost_still_have_one_effect_each(seed: int) -> None:
    inner = prepared(MemoryStore())
    operations = {f"t{thread}-{at}" for thread in range(3) for at in range(MOVES)}

    def plan() -> list[Rule]:
        writes = [("swap", ""), ("create", "gates/"), ("create", "objects/")]
        faults = (Fault.UNKNOWN_BEFORE, Fault.UNKNOWN_AFTER)
        return [
            Rule(operation=operation, prefix=prefix, fault=fault, times=None, chance=0.15)
            for operation, prefix in writes
            for fault in faults
        ]

    def moves(thread: int) -> None:
        store = FaultyStore(inner, plan(), seed=seed * 10 + thread)
        for at in range(MOVES):
            operation = f"t{thread}-{at}"
            until_known(lambda name=operation: admit(store, gates.DATASET, ROOT, "prod", a_call(name)))

    threads = [threading.Thread(target=moves, args=(thread,)) for thread in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_history(inner, operations)


def test_the_same_operation_from_many_at_once_has_one_effect() -> None:
    store = prepared(MemoryStore())
    answers: list[tuple[int, str]] = []

    def move() -> None:
        moved = admit(store, gates.DATASET, ROOT, "prod", a_call("one"))
        answers.append((moved.generation, moved.permit))

    threads = [threading.Thread(target=move) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 6
    assert len(set(answers)) == 1
    check_history(store, {"one"})


def _worker(folder: Path, pem: bytes, name: str) -> None:
    store = LocalStore(folder)
    key = from_pem("admin", pem)
    for at in range(MOVES):
        until_known(lambda at=at: admit(store, gates.DATASET, ROOT, "prod", a_call(f"{name}-{at}", key)))


def test_processes_that_race_on_a_folder_lose_no_move(tmp_path: Path) -> None:
    store = prepared(LocalStore(tmp_path / "store"))
    pem = gates.key("admin").to_pem()
    workers = [PROCESSES.Process(target=_worker, args=(tmp_path / "store", pem, f"p{at}")) for at in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    check_history(store, {f"p{worker}-{at}" for worker in range(3) for at in range(MOVES)})


def _killed(folder: Path, pem: bytes, rule: Rule) -> None:
    store = FaultyStore(LocalStore(folder), [rule])
    with suppress(ShardrelError):
        admit(store, gates.DATASET, ROOT, "prod", a_call("op", from_pem("admin", pem)))
    os.kill(os.getpid(), signal.SIGKILL)


POINTS = [("create", "gates/"), ("create", "objects/"), ("swap", "")]


@pytest.mark.parametrize(("operation", "prefix"), POINTS)
@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER])
def test_a_process_killed_before_or_after_any_write_is_finished_by_a_rerun(
    tmp_path: Path, operation: str, prefix: str, fault: Fault
) -> None:
    store = prepared(LocalStore(tmp_path / "store"))
    rule = Rule(operation=operation, prefix=prefix, fault=fault)
    victim = PROCESSES.Process(target=_killed, args=(tmp_path / "store", gates.key("admin").to_pem(), rule))
    victim.start()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    landed = (operation, fault) == ("swap", Fault.FAIL_AFTER)
    again = admit(store, gates.DATASET, ROOT, "prod", a_call("op"))
    assert (again.generation, again.repeated) == (1, landed)
    check_history(store, {"op"})

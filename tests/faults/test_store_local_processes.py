"""Processes that share a local store, and processes that are killed in the middle of a write."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shardrel.digest import digest_of
from shardrel.store.layout import gate_key, operation_key
from shardrel.store.local import LocalStore
from shardrel.store.port import Written

STATE = gate_key("data")

RACE = """
import sys
from shardrel.store.layout import operation_key
from shardrel.store.local import LocalStore

store, me = LocalStore(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    outcome = store.create(operation_key("data", f"op-{number}"), me.encode())
    print(type(outcome).__name__, flush=True)
"""

INCREMENT = """
import sys
from shardrel.store.layout import gate_key
from shardrel.store.local import LocalStore
from shardrel.store.port import Written

store, key = LocalStore(sys.argv[1]), gate_key("data")
print("ready", flush=True)
sys.stdin.readline()
done = 0
while done < 50:
    stored = store.read(key, max_bytes=20)
    done += isinstance(store.swap(key, b"%d" % (int(stored.data) + 1), stored.token), Written)
"""

CREATE = """
import sys
from shardrel.digest import digest_of
from shardrel.store.layout import object_key
from shardrel.store.local import LocalStore

store, number = LocalStore(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
while True:
    data = number.to_bytes(8, "little") * (1 << 18)
    store.create(object_key(digest_of(data)), data)
    print(digest_of(data), flush=True)
    number += 1
"""

SWAP = """
import sys
from shardrel.store.layout import gate_key
from shardrel.store.local import LocalStore

store, key = LocalStore(sys.argv[1]), gate_key("data")
print("ready", flush=True)
while True:
    stored = store.read(key, max_bytes=1 << 20)
    value = int(stored.data[:20]) + 1
    store.swap(key, b"%020d" % value * 5000, stored.token)
    print(value, flush=True)
"""


def start(program: str, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", program, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(processes: "list[subprocess.Popen[str]]") -> list[list[str]]:
    """Let waiting processes run at once; what each printed."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=60)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return outputs


def kill(process: "subprocess.Popen[str]", after: float) -> list[str]:
    """SIGKILL it some time later; what it had acknowledged."""
    time.sleep(after)
    os.kill(process.pid, signal.SIGKILL)
    return process.communicate(timeout=60)[0].split()


def test_one_of_racing_processes_creates_each_key(tmp_path: Path) -> None:
    outputs = go([start(RACE, tmp_path / "store", f"racer-{number}") for number in range(3)])
    store = LocalStore(tmp_path / "store")
    for number, outcomes in enumerate(zip(*outputs, strict=True)):
        assert sorted(outcomes) == ["Conflict", "Conflict", "Written"]
        stored = store.read(operation_key("data", f"op-{number}"), max_bytes=20)
        assert stored is not None
        assert stored.data == b"racer-%d" % outcomes.index("Written")


def test_no_increment_of_racing_processes_is_lost(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    store.swap(STATE, b"0", None)
    go([start(INCREMENT, tmp_path / "store") for _ in range(3)])
    assert (tmp_path / "store" / STATE).read_bytes() == b"150"


@pytest.fixture
def moment() -> Callable[[], float]:
    """Seconds until the next kill, from a fixed seed."""
    chance = random.Random(7)
    return lambda: chance.uniform(0.01, 0.12)


def test_a_killed_creator_leaves_whole_objects_alone(tmp_path: Path, moment: Callable[[], float]) -> None:
    root = tmp_path / "store"
    acknowledged: set[str] = set()
    for round_ in range(60):
        acknowledged.update(line for line in kill(start(CREATE, root, round_ * 1000), moment()) if len(line) == 71)
        if acknowledged and round_ >= 5:  # a busy disk may take longer than the first few live
            break
    store = LocalStore(root)
    found = {f"sha256:{key.rsplit('/', 1)[1]}": key for key in store.list("objects/")}
    assert acknowledged
    assert acknowledged <= found.keys()
    for digest, key in found.items():
        assert digest_of((root / key).read_bytes()) == digest


def test_a_killed_swapper_leaves_old_bytes_or_new_ones_and_no_lock(tmp_path: Path, moment: Callable[[], float]) -> None:
    root = tmp_path / "store"
    store = LocalStore(root)
    assert isinstance(store.swap(STATE, b"%020d" % 0 * 5000, None), Written)
    last = 0
    for _ in range(6):
        last = max([last, *(int(line) for line in kill(start(SWAP, root), moment())[:-1])])
        data = (root / STATE).read_bytes()
        assert data == data[:20] * 5000
        assert int(data[:20]) >= last
    stored = store.read(STATE, max_bytes=1 << 20)
    assert stored is not None
    assert isinstance(store.swap(STATE, b"free", stored.token), Written)

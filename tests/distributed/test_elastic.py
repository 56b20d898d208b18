"""torchrun with a range of nodes: agents come and are killed, and the run consumes each sample once, in order."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from shardrel.data import ledger
from shardrel.data.order import SampleOrder
from shardrel.digest import raw_digest
from shardrel.gate import runs
from shardrel.gate.view import read_gate
from shardrel.store.local import LocalStore
from shardrel.trust.keyring import save
from tests.support.rank_processes import free_port
from tests.support.torchrun import ROOT, environment
from tests.support.training import TrainingWorld, move_alias, training_world

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

STEPS = 72


class Agent:
    """One of torchrun's agents with two workers, as a node has it."""

    def __init__(self, folder: Path, port: int) -> None:
        launcher = [
            "--nnodes=1:2", "--nproc-per-node=2", "--max-restarts=5", "--rdzv-backend=shardrel", "--rdzv-id=job",
            f"--rdzv-endpoint=127.0.0.1:{port}", "--local-addr=127.0.0.1",
            "--rdzv-conf=last_call_timeout=4,join_timeout=120,keep_alive_interval=2,keep_alive_max_attempt=6",
        ]  # fmt: skip
        words = [
            str(ROOT / "tests" / "distributed" / "worker.py"), folder / "store", folder / "cache", "--keys",
            folder / "keys", "--steps", STEPS, "--pause", 0.5, "--checkpoint-every", 4, "--timeout", 30,
            "--samples-out", folder / "samples.jsonl", "--record", folder / "requests.txt",
        ]  # fmt: skip
        self.said: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *launcher, *[str(word) for word in words]],
            cwd=ROOT,
            env=environment(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def step(self, at: int, world: int) -> None:
        """Wait until a worker of it has been at least at this step with this world size."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self.said.append(text)
            if text.startswith('{"event": "step"'):
                event = json.loads(text)
                if event["step"] >= at and event["world"] == world:
                    return
        raise AssertionError(f"ended before step {at} with {world} ranks:\n" + "".join(self.said[-60:]))

    def vanish(self) -> None:
        """SIGKILL for the agent and its workers, as when the machine is gone."""
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=True
        )
        for pid in (self.process.pid, *[int(word) for word in listed.stdout.split()]):
            os.kill(pid, signal.SIGKILL)

    def end(self) -> int:
        """Wait for its end."""
        self.said.append(self.process.communicate(timeout=180)[0])
        return self.process.returncode


@contextmanager
def agents() -> Iterator[list[Agent]]:
    """A list to put agents into; whatever still runs at the end is killed."""
    started: list[Agent] = []
    try:
        yield started
    finally:
        for one in started:
            if one.process.poll() is None:
                one.process.send_signal(signal.SIGTERM)
            print("".join(one.said), one.process.communicate(timeout=60)[0])


def consumed(folder: Path) -> dict[int, dict[str, Any]]:
    """What each step consumed; of a step that was repeated, the last time."""
    lines = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    return {line["step"]: line for line in lines}


def the_requests(folder: Path) -> list[tuple[str, str]]:
    """Operation and key of every request of every process."""
    return [(line.split(" ")[0], line.split(" ")[1]) for line in (folder / "requests.txt").read_text().splitlines()]


@pytest.fixture
def world(tmp_path: Path) -> TrainingWorld:
    world = training_world(LocalStore(str(tmp_path / "store")), tmp_path, records=40, shards=5)
    save(tmp_path / "keys", world.signer)
    return world


def test_nodes_come_and_are_lost(world: TrainingWorld, tmp_path: Path) -> None:
    """2 ranks, 4, and 2 again."""
    port = free_port()
    with agents() as started:
        first = Agent(tmp_path, port)
        started.append(first)
        first.step(5, world=2)
        second = Agent(tmp_path, port)
        started.append(second)
        first.step(10, world=4)
        others = move_alias(world, tmp_path)
        second.vanish()
        first.step(14, world=2)
        assert first.end() == 0, first.said[-1][-4000:]
    order = SampleOrder(sizes=tuple(shard.records for shard in world.release.shards), seed=0, block_shards=8)
    replayed = ledger.replay(ledger.genesis(world.root), order, 8, STEPS)
    assert sorted(consumed(tmp_path)) == list(range(STEPS))
    assert consumed(tmp_path)[STEPS - 1]["ledger"] == replayed.ledger
    view = runs.show(world.store, world.dataset, world.run)
    assert (view.root, view.generation, view.head.step) == (world.root, 1, STEPS)  # type: ignore[union-attr]

    # The alias moved on meanwhile, and no process asked for anything of what it points to now.
    assert read_gate(world.store, world.dataset).body.aliases["prod"].generation == 2
    asked = the_requests(tmp_path)
    assert not [key for _, key in asked for digest in others if raw_digest(digest).hex() in key]
    assert {operation for operation, _ in asked} == {"read", "create", "swap"}

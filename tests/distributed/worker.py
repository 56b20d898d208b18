"""A rank that joins a run, or several one after the other, and prints how each of them went.

    worker.py STORE CACHE --run RUN --timeout S [--scenario NAME ...] [--steps N] [--pause S]

Each scenario is a job of its own on the same rendezvous store; what is odd in it is odd on the last rank alone.
"""

import argparse
import dataclasses
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

import shardrel
from shardrel import clock
from shardrel.checkpoint.group import Group
from shardrel.data.cache import ShardCache
from shardrel.data.order import ORDER_FUNCTION
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.drills.recording_store import RecordingStore
from shardrel.errors import RunFailedError
from shardrel.store.open import open_store
from shardrel.store.port import Store
from shardrel.train import hello as train_hello
from shardrel.train.admission import join
from shardrel.train.group import connect, sum_over_ranks
from shardrel.train.pin import PinnedRun, TrainPlan
from shardrel.train.session import checkpoint, resume, steps
from shardrel.trust.keyring import load

PLAN = TrainPlan(columns=("text",), global_batch=8)
ZERO = "sha256:" + "0" * 64
ROOT_AND_SCHEMA = 2


def say(event: str, **facts: Any) -> None:
    """In one write: ranks may share an output."""
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


class Lines:
    """A list of requests that is a file, so that it outlives a killed process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, request: tuple[str, str]) -> None:
        """In one write."""
        with self._path.open("a") as file:
            file.write(" ".join(request) + "\n")


class Odd:
    """What is odd about this rank in a scenario."""

    def __init__(self, scenario: str, options: argparse.Namespace, store: Store) -> None:
        self.scenario = scenario
        self.run = "run-2" if scenario == "other-run" else options.run
        self.root = ZERO if scenario == "other-root" else None
        self.plan = dataclasses.replace(PLAN, split="test") if scenario == "other-split" else PLAN
        self.store = store
        self.cache = options.cache
        if scenario == "bad-bytes":
            self.store = FaultyStore(
                store, [Rule(operation="read", prefix="objects/", fault=Fault.FLIPPED, times=None)]
            )
            self.cache = options.cache / "bad"
        if scenario == "old-cache":  # entries of other bytes, and no store to fetch the right ones from
            absent = Rule(operation="read", prefix="objects/", fault=Fault.ABSENT, skip=ROOT_AND_SCHEMA, times=None)
            self.store = FaultyStore(store, [absent])
            self.cache = options.cache / "old"

    def before(self) -> None:
        """What happens when the job has met and nobody has joined."""
        if self.scenario == "other-version":
            shardrel.__version__ = "0.0.9"
        if self.scenario == "other-order":
            train_hello.ORDER_FUNCTION = "block-splitmix64.v0"  # type: ignore[assignment]
        if self.scenario == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.scenario == "hangs":
            os.kill(os.getpid(), signal.SIGSTOP)
        if self.scenario == "dies-verifying":
            ShardCache.read = _die  # type: ignore[method-assign]

    def after(self) -> None:
        """Back to what is usual."""
        shardrel.__version__ = VERSION
        train_hello.ORDER_FUNCTION = ORDER_FUNCTION


VERSION = shardrel.__version__


def _die(*_: Any) -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def take_part(group: Group, odd: Odd, options: argparse.Namespace) -> PinnedRun:
    """Join with what is odd about this rank."""
    odd.before()
    cache = ShardCache(odd.cache, odd.store)
    pin = join(group, odd.store, cache, dataset=options.dataset, run=odd.run, plan=odd.plan, root=odd.root)
    say("joined", scenario=odd.scenario, rank=group.rank, root=pin.root, world=group.world_size)
    if options.steps:
        train(group, odd.store, cache, pin, options)
    return pin


def train(group: Group, store: Store, cache: ShardCache, pin: PinnedRun, options: argparse.Namespace) -> None:
    """A few steps with a collective in each, and checkpoints of something that counts them."""
    signer = load(options.keys, "admin") if group.rank == 0 else None
    torch.manual_seed(0)  # ranks that hold different values save nothing
    model = torch.nn.Linear(1, 1)
    begin = resume(group, store, pin, {"model": model}, signer=signer)
    if group.rank == 0:
        say("resumed", step=begin.cut.step, world=group.world_size, saved_by=begin.world_size)
    for batch in steps(group, cache, pin, begin.cut):
        if batch.step >= options.steps:
            return
        total = torch.tensor([batch.size], dtype=torch.int64)
        sum_over_ranks(group, total)
        say("step", rank=group.rank, step=batch.step, samples=int(total[0]), world=group.world_size)
        if group.rank == 0 and options.samples_out:
            line = {"step": batch.step, "samples": batch.samples.tolist(), "ledger": batch.after.ledger}
            with options.samples_out.open("a") as file:
                file.write(json.dumps(line) + "\n")
        clock.sleep(options.pause)
        if options.checkpoint_every and batch.after.step % options.checkpoint_every == 0:
            checkpoint(group, store, pin, {"model": model}, batch.after, signer=signer)


def main() -> int:
    """Play the scenarios; the status is that of the last one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("cache", type=Path)
    parser.add_argument("--keys", type=Path)
    parser.add_argument("--dataset", default="data")
    parser.add_argument("--run", default="run-1")
    parser.add_argument("--timeout", type=float, default=30)
    parser.add_argument("--scenario", nargs="*", default=["usual"])
    parser.add_argument("--odd", type=int, default=-1, help="the odd rank; the last one without")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--checkpoint-every", type=int, default=0)
    parser.add_argument("--samples-out", type=Path)
    parser.add_argument("--endpoint-url")
    parser.add_argument("--record", type=Path, help="requests to the store, one a line")
    parser.add_argument("--pause", type=float, default=0.05)
    options = parser.parse_args()
    store: Store = open_store(options.store, endpoint_url=options.endpoint_url)
    if options.record:
        store = RecordingStore(store, requests=Lines(options.record))  # type: ignore[arg-type]
    last = int(os.environ["WORLD_SIZE"]) - 1 if options.odd < 0 else options.odd
    status = 0
    for scenario in options.scenario:
        odd = Odd(scenario if int(os.environ["RANK"]) == last else "usual", options, store)
        try:
            with connect(timeout_s=options.timeout) as group:
                say("met", rank=group.rank)
                take_part(group, odd, options)
            status = 0
        except RunFailedError as err:
            facts = {"rank": int(os.environ["RANK"]), "code": err.code, "ranks": err.context["ranks"]}
            say("failed", scenario=scenario, **facts)
            status = err.exit_status
        finally:
            odd.after()
    return status


if __name__ == "__main__":
    sys.exit(main())

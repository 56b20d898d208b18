"""A rank on a host of its own: it trains the laboratory's model, whose bits do not depend on the number of ranks.

    host_worker.py STORE DISK --steps N --checkpoint-every K --timeout S [--hold WRITE:PLACE:SIDE --hold-step N]

With ``--hold`` it stops before or after its first such write of the checkpoint of a step, until a line comes on stdin.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import shardrel.store.s3  # noqa: F401 (loaded before anybody waits)
from shardrel.checkpoint.group import Group
from shardrel.data.cache import ShardCache
from shardrel.errors import ShardrelError
from shardrel.lab.barrier import place_of
from shardrel.lab.model import Training, state_root
from shardrel.lab.scene import DATASET, RUN
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.open import open_store
from shardrel.store.port import Store
from shardrel.train.admission import join
from shardrel.train.group import connect
from shardrel.train.pin import TrainPlan
from shardrel.train.session import checkpoint, resume, steps
from shardrel.trust import keyring

SEED = 3
PLAN = TrainPlan(columns=("image", "label"), global_batch=60, seed=SEED, block_shards=8, split="train")

T = TypeVar("T")


def say(event: str, **facts: Any) -> None:
    """In one write."""
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


class HoldingStore(ForwardingStore):
    """Stops before or after the first write of a kind, once armed."""

    def __init__(self, inner: Store, hold: str) -> None:
        super().__init__(inner)
        self.armed = False
        self._write, self._place, self._side = hold.split(":")

    def around(self, operation: str, key: str, request: Callable[[], T]) -> T:
        mine = self.armed and (operation, place_of(key)) == (self._write, self._place)
        self.armed = self.armed and not mine
        if mine and self._side == "before":
            self._wait()
        outcome = request()
        if mine and self._side == "after":
            self._wait()
        return outcome

    def _wait(self) -> None:
        say("holding")
        sys.stdin.readline()


def train(group: Group, store: Store, options: argparse.Namespace) -> None:
    """Resume, train to the last step, and tell what came of it.

    Ranks: all.
    """
    cache = ShardCache(options.disk / "cache", store)
    signer = keyring.load(options.disk / "keys", keyring.ADMIN) if group.rank == 0 else None
    training = Training(SEED)
    pin = join(group, store, cache, dataset=DATASET, run=RUN, plan=PLAN)
    begin = resume(group, store, pin, training.parts, signer=signer)
    say("resumed", step=begin.cut.step, generation=begin.generation, saved_by=begin.world_size, helped=begin.helped)
    cut = begin.cut
    for batch in steps(group, cache, pin, begin.cut):
        training.step(group, batch)
        cut = batch.after
        say("step", step=cut.step, ledger=cut.ledger)
        if cut.step % options.checkpoint_every == 0:
            if isinstance(store, HoldingStore):
                store.armed = cut.step == options.hold_step
            saved = checkpoint(group, store, pin, training.parts, cut, signer=signer)
            say("saved", step=cut.step, generation=getattr(saved, "generation", None))
        if cut.step == options.steps:
            break
    say("end", step=cut.step, ledger=cut.ledger, state=state_root(training.state))


def main() -> int:
    """One rank's life; the status is that of its failure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("disk", type=Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--checkpoint-every", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--hold")
    parser.add_argument("--hold-step", type=int, default=0)
    options = parser.parse_args()
    store: Store = open_store(options.store)
    if options.hold:
        store = HoldingStore(store, options.hold)
    try:
        with connect(timeout_s=options.timeout) as group:
            train(group, store, options)
    except ShardrelError as err:
        say("failed", code=err.code, ranks=err.context.get("ranks"), rank=int(os.environ["RANK"]))
        return err.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A drill on a handful of made-up images, and its tasks done in this process instead of in fresh ones."""

import gzip
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shardrel.canonical import json
from shardrel.cli.drill_crash import the_programs
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.lab import child
from shardrel.lab.barrier import Barrier, Event, read_barrier
from shardrel.lab.conduct import Conducted, conduct, make_folder
from shardrel.lab.drill import Setting
from shardrel.lab.fashion import Pins, Resource
from shardrel.lab.processes import Ended, Processes
from shardrel.lab.stores import FolderStores, Stores
from shardrel.lab.tasks import Answer, Evaluate, Publish, Recover, Reshard, Task, Train
from shardrel.trust.keys import SigningKey
from tests.support.publishing import NOW

BATCH = 60
TRAIN, TEST = 240, 140
PACKAGE = digest_of(b"the program")


def make_data(folder: Path) -> Pins:
    """Files like those of Fashion-MNIST, and their pins."""
    folder.mkdir()
    random = np.random.default_rng(6)
    resources = []
    for name, count in (("train", TRAIN), ("t10k", TEST)):
        images = struct.pack(">IIII", 2051, count, 28, 28) + random.integers(0, 256, count * 784, np.uint8).tobytes()
        labels = struct.pack(">II", 2049, count) + random.integers(0, 10, count, np.uint8).tobytes()
        for kind, data in (("images-idx3-ubyte", images), ("labels-idx1-ubyte", labels)):
            (folder / f"{name}-{kind}.gz").write_bytes(gzip.compress(data))
            resources.append(Resource(name=f"{name}-{kind}", digest=digest_of(data)))
    return Pins(
        train_images=resources[0], train_labels=resources[1], test_images=resources[2], test_labels=resources[3]
    )


@dataclass(frozen=True, kw_only=True)
class Drilled:
    """A drill and where its bundle lies."""

    folder: Path
    done: Conducted
    key: SigningKey
    pins: Pins


class Killed(BaseException):
    """Ends the publisher as far as one process can end a part of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HereAndNow:
    """Does every task in this process, one rank a group: what a drill does but for the processes."""

    def run(self, name: str, task: Task) -> Any:
        """Do it; over the wire and back, as a process would get it."""
        return _again(_do(json.decode(json.encode(task), Task)))  # type: ignore[arg-type]

    def group(self, name: str, task: Train, world_size: int, then: Publish | None) -> list[Ended]:
        """One rank."""
        assert world_size == 1
        ended = Ended(status=0, answer=self.run(name, task))
        if then is not None:
            self.run(f"publish-{name}", then)
        return [ended]

    def kill_at(self, name: str, task: Publish, barrier: Barrier) -> tuple[list[Event], Ended]:
        """Unwind the publisher where a process would be killed."""
        events: list[Event] = []

        def tell(event: Event) -> None:
            events.append(event)
            if barrier.is_at(events):
                raise Killed

        real, child._ask = child._ask, tell
        try:
            child.publish(task)
        except Killed:
            return events, Ended(status=-9, answer=None)
        finally:
            child._ask = real
        raise RunFailedError(ErrorCode.RUN_RANK_FAILED, "the publisher never came to the barrier")


def _do(task: Task) -> Answer:
    match task:
        case Train():
            return child.train(task)
        case Publish():
            return child.publish(task)
        case Recover():
            return child.recovery(task)
        case Reshard():
            return child.reshard(task)
        case Evaluate():
            return child.evaluation(task)
    raise TypeError("no task")


def _again(answer: Answer) -> Answer:
    return json.decode(json.encode(answer), Answer)  # type: ignore[arg-type]


def here_and_now(logs: Path) -> Processes:
    """For ``Setting.processes``."""
    return HereAndNow()


def a_drill(
    folder: Path,
    data: tuple[Path, Pins],
    barrier: str,
    signer: SigningKey,
    *,
    ranks: tuple[int, int] = (1, 1),
    processes: Callable[[Path], Processes] = here_and_now,
    stores: Stores | None = None,
) -> Conducted:
    """A whole drill on made-up data."""
    make_folder(folder)
    setting = Setting(
        stores=stores or FolderStores(folder / "stores"),
        folder=folder,
        data=data[0],
        pins=data[1],
        barrier=read_barrier(barrier),
        seed=3,
        global_batch=BATCH,
        ranks=ranks,
        programs=the_programs(),
        processes=processes,
        now=lambda: NOW,
        progress=lambda what: None,
    )
    return conduct(setting, signer, None, lambda: PACKAGE)

"""Kill the publisher of a drill at every store operation or request, each time on a copy of what was there before.

    python -m tests.support.lab_sweep FOLDER STORES EVERY OFFSET BEFORE AFTER

STORES is an S3 URL, where requests are gone through, or a folder, where operations of the store are.

The model is trained once up to the crash. From there on each point is a drill of its own: the publisher's process gets
a SIGKILL, another one recovers, training goes on at both world sizes, and the records are judged as a drill's are.
It writes one JSON line a point, and one with their number first.
"""

import copy
import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import shardrel.store.s3  # noqa: F401 (loaded before the forks)
from shardrel.cli.drill_crash import the_programs
from shardrel.lab.barrier import BEGIN, REQUEST, read_barrier
from shardrel.lab.conduct import make_folder
from shardrel.lab.drill import Drill, Observed, Setting
from shardrel.lab.judge import final, judge
from shardrel.lab.programs import Programs
from shardrel.lab.stores import FolderStores, ServerStores, Stores
from shardrel.lab.tasks import Server
from tests.support.lab import BATCH, make_data
from tests.support.lab_forks import Forks, in_fork
from tests.support.publishing import NOW

SERVER = Server(endpoint_url=None, quoted_tokens=True)


@dataclasses.dataclass(frozen=True, slots=True)
class OnCopies:
    """Stores of one point; the reference is everybody's, and only read from here on."""

    of: Stores
    point: str

    @property
    def server(self) -> Server | None:
        """The same."""
        return self.of.server

    @property
    def base(self) -> str:
        """The same."""
        return self.of.base

    def url(self, name: str) -> str:
        """Of the reference, or of the point's own."""
        return self.of.url(self._name(name))

    def copy(self, source: str, target: str) -> None:
        """Within the point."""
        self.of.copy(self._name(source), self._name(target))

    def settle(self, folder: Path) -> None:
        """Nothing is kept."""

    def _name(self, name: str) -> str:
        return name if name == "reference" else f"{self.point}/{name}"


def placed(url: str) -> tuple[Stores, str]:
    """The stores, and what barriers count there."""
    if url.startswith("s3://"):
        return ServerStores(url, SERVER), "request"
    return FolderStores(Path(url)), "store"


def begun(folder: Path, stores: Stores, ranks: tuple[int, int]) -> tuple[Drill, str]:
    """A drill up to its crash, and the root of its release."""
    pins = make_data(folder / "data")
    make_folder(folder / "drill")
    real = the_programs()
    programs = Programs(
        release=lambda *words: in_fork(lambda: real.release(*words)),
        verify=lambda *words: in_fork(lambda: real.verify(*words)),
    )
    setting = Setting(
        folder=folder / "drill", stores=stores, data=folder / "data", pins=pins,
        barrier=read_barrier("store-1-before"), seed=3, global_batch=BATCH, ranks=ranks, programs=programs,
        processes=lambda logs: Forks(logs=logs), now=lambda: NOW, progress=lambda what: None,
    )  # fmt: skip
    drill = Drill(setting)
    return drill, drill.prepare()


def at(drill: Drill, stores: Stores, barrier: str) -> Drill:
    """The same drill before its crash, elsewhere."""
    point = copy.copy(drill)
    point.setting = dataclasses.replace(drill.setting, stores=stores, barrier=read_barrier(barrier))
    point.groups = [*drill.groups]
    return point


def counted(drill: Drill, root: str, stores: Stores, kind: str) -> int:
    """How many operations or requests there are; the last is that of the gate's admission."""
    stores.copy("crash", "whole/crash")
    step, last = (REQUEST, "gate-after-put") if kind == "request" else (BEGIN, "gate-after-rename")
    point = at(drill, OnCopies(stores, "whole"), last)
    return sum(event.step == step for event in point.crash(root).recovery.events)


def facts(name: str, done: Observed, ranks: tuple[int, int]) -> dict[str, Any]:
    """What is printed of a point."""
    recovery = done.recovery
    last = final(recovery.lineages)
    killed = recovery.events[-1]
    return {
        "barrier": name,
        "problems": [[one.check, one.subject] for one in judge(done.reference, done.recovered, recovery, ranks)],
        "status": recovery.publisher.status,
        "killed": [killed.step, killed.operation, killed.place],
        "installed": recovery.installed,
        "admitted": recovery.admitted,
        "selected": recovery.choice.generation,
        "helped": recovery.choice.helped,
        "end": [last.generation, last.step, last.world_size],
        "state": last.state_root,
        "ledger": last.ledger,
    }


def points(kind: str, count: int, every: int, offset: int) -> Iterator[str]:
    """Every one, before and after; or every n-th of these."""
    names = [f"{kind}-{number}-{end}" for number in range(1, count + 1) for end in ("before", "after")]
    yield from names[offset::every]


def main() -> None:
    """Go through the points."""
    folder, url = Path(sys.argv[1]), sys.argv[2]
    every, offset, *pair = (int(word) for word in sys.argv[3:])
    ranks = (pair[0], pair[1])
    folder.mkdir()
    stores, kind = placed(url)
    drill, root = begun(folder, stores, ranks)
    count = counted(drill, root, stores, kind)
    print(json.dumps({"count": count}), flush=True)
    for name in points(kind, count, every, offset):
        stores.copy("crash", f"{name}/crash")
        print(json.dumps(facts(name, at(drill, OnCopies(stores, name), name).crash(root), ranks)), flush=True)


if __name__ == "__main__":
    main()

"""Ranks of the checkpoint benchmark: both sides in the same processes, in turn; rank 0 writes the times down."""

import hashlib
import json
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import count as numbers
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save, save
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

from shardrel.checkpoint.background import BackgroundSaver
from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.sharded import load_sharded, save_sharded
from shardrel.checkpoint.sharded_writer import Purpose
from shardrel.checkpoint.writing import Kept
from shardrel.records.checkpoint import Cut
from shardrel.store.local import LocalStore
from shardrel.trust.keys import from_pem
from tests.support.checkpoints import ORDER, RUN, cut
from tests.support.gates import DATASET

WIDTH = 4096
TENSORS = 20
CHANGED = 2  # of them, before the second save


class Job:
    """One rank's state, folders and both sides' verbs."""

    def __init__(self, rank: int, world: int, folder: Path) -> None:
        self.rank, self.world, self.folder = rank, world, folder
        settings = json.loads((folder / "settings.json").read_text())
        self.count: int = settings["count"]
        self.rows: int = settings["bytes"] // (TENSORS * WIDTH * 4 * world) * world
        self.mesh = DeviceMesh("cpu", torch.arange(world))
        self.key = from_pem("admin", (folder / "key.pem").read_bytes()) if rank == 0 else None
        self.fresh = numbers()
        self.step = numbers(1)
        self.kept = Kept()
        self.background = dist.new_group(backend="gloo")
        torch.manual_seed(rank)
        self.state = self.filled(lambda local: local.normal_())

    def filled(self, fill: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, Any]:
        """A sharded state of all ranks."""
        return {"model": {f"w{i}": self._sharded(fill) for i in range(TENSORS)}}

    def _sharded(self, fill: Callable[[torch.Tensor], torch.Tensor]) -> DTensor:
        local = fill(torch.empty(self.rows // self.world, WIDTH))
        return DTensor.from_local(local, self.mesh, [Shard(0)], run_check=False)

    def locals(self, state: dict[str, Any]) -> Iterator[torch.Tensor]:
        """This rank's parts."""
        return (value.to_local() for value in state["model"].values())

    def new_store(self) -> Path:
        """A fresh copy of the empty gate's store."""
        target = self.folder / f"store-{next(self.fresh)}"
        if self.rank == 0:
            shutil.copytree(self.folder / "empty", target)
        dist.barrier()
        return target

    def drop(self, target: Path) -> None:
        """Remove what a save wrote, outside of the time."""
        dist.barrier()
        if self.rank == 0:
            shutil.rmtree(target)
        dist.barrier()

    def purpose(self, at: Cut) -> Purpose:
        """Of the next step."""
        return Purpose(dataset=DATASET, run=RUN, cut=at, order=ORDER, signer=self.key)

    def save_ours(self, target: Path) -> None:
        """Commit a checkpoint."""
        save_sharded(LocalStore(target), self.state, self.purpose(cut(next(self.step))), kept=self.kept)

    def save_dcp(self, target: Path) -> None:
        """torch's file system writer, which syncs its files."""
        save(self.state, storage_writer=FileSystemWriter(target))

    def save_dcp_and_hash(self, target: Path) -> None:
        """The same, and SHA-256 of every byte."""
        self.save_dcp(target)
        self.hash(self.state)

    def hash(self, state: dict[str, Any]) -> None:
        """SHA-256 of this rank's bytes."""
        for local in self.locals(state):
            hashlib.sha256(local.view(torch.uint8).numpy().reshape(-1).data).hexdigest()

    def load_ours(self, target: Path, into: dict[str, Any]) -> None:
        """Restore the head."""
        load_sharded(
            LocalStore(target), into, dataset=DATASET, expected=Expected(run_id=RUN, order=ORDER), signer=self.key
        )

    def load_dcp(self, target: Path, into: dict[str, Any]) -> None:
        """torch's file system reader."""
        load(into, storage_reader=FileSystemReader(target))

    def load_dcp_and_hash(self, target: Path, into: dict[str, Any]) -> None:
        """The same, and SHA-256 of every byte."""
        self.load_dcp(target, into)
        self.hash(into)

    def timed(self, action: Callable[[], object]) -> dict[str, float]:
        """Wall clock of all, from barrier to barrier, and processor seconds of all ranks."""
        dist.barrier()
        wall, cpu = time.perf_counter(), _cpu()
        action()
        dist.barrier()
        wall = time.perf_counter() - wall
        total = torch.tensor([_cpu() - cpu], dtype=torch.float64)
        dist.all_reduce(total)
        return {"wall": wall, "cpu": float(total)}

    def cold(self, target: Path) -> None:
        """Ask the system to forget the files' pages."""
        dist.barrier()
        if self.rank == 0:
            for path in (path for path in target.rglob("*") if path.is_file()):
                with open(path, "rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        dist.barrier()


def main(rank: int, world: int, folder: Path) -> None:
    """All measurements."""
    job = Job(rank, world, folder)
    measured: dict[str, Any] = {name: [] for name in ("save", "warm", "cold", "second", "async")}
    for index in range(-1, job.count):
        for name, found in _round(job).items():
            if index >= 0:  # the first round warms up
                measured[name].append(found)
    if rank == 0:
        (folder / "times.json").write_text(json.dumps(measured))


def _round(job: Job) -> dict[str, dict[str, dict[str, float]]]:
    ours, plain, hashed = job.new_store(), job.folder / f"dcp-{next(job.fresh)}", job.folder / f"dcp-{next(job.fresh)}"
    found: dict[str, Any] = {"save": {}, "warm": {}, "cold": {}, "second": {}, "async": {}}
    job.kept = Kept()
    found["save"]["ours"] = job.timed(lambda: job.save_ours(ours))
    found["save"]["dcp"] = job.timed(lambda: job.save_dcp(plain))
    found["save"]["dcp+sha256"] = job.timed(lambda: job.save_dcp_and_hash(hashed))
    into = job.filled(torch.Tensor.zero_)
    for kind in ("warm", "cold"):
        sides = {
            "ours": (ours, job.load_ours),
            "dcp": (plain, job.load_dcp),
            "dcp+sha256": (hashed, job.load_dcp_and_hash),
        }
        for side, (target, verb) in sides.items():
            if kind == "cold":
                job.cold(target)
            found[kind][side] = job.timed(lambda verb=verb, target=target: verb(target, into))  # type: ignore[misc]
    for local in list(job.locals(job.state))[:CHANGED]:
        local.add_(1.0)
    found["second"]["ours"] = job.timed(lambda: job.save_ours(ours))
    found["second"]["first"] = found["save"]["ours"]
    for target in (ours, plain, hashed):
        job.drop(target)
    found["async"] = _blocked(job)
    return found


def _blocked(job: Job) -> dict[str, dict[str, float]]:
    """What a call of either side's asynchronous save takes; the second call, when both have their memory."""
    ours, theirs = job.new_store(), job.folder / f"dcp-{next(job.fresh)}"

    def write(staged: dict[str, Any], at: Cut) -> Any:
        return save_sharded(LocalStore(ours), staged, job.purpose(at), process_group=job.background)

    with BackgroundSaver(write) as saver:
        saver.start(job.state, cut(next(job.step))).result()
        mine = job.timed(lambda: saver.start(job.state, cut(next(job.step))))
        saver.settle()
    stager = DefaultStager(StagingOptions(False, False, False, False))
    for _ in range(2):
        futures: list[Any] = []
        dcps = job.timed(lambda futures=futures: futures.append(_dcp_async(job, theirs, stager)))  # type: ignore[misc]
        futures[0].result()
    stager.close()
    job.drop(ours)
    job.drop(theirs)
    return {"ours": mine, "dcp": dcps}


def _dcp_async(job: Job, target: Path, stager: Any) -> Any:
    writer = FileSystemWriter(target)
    return async_save(job.state, storage_writer=writer, process_group=job.background, async_stager=stager)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

"""What the ranks do in tests of copies of sharded states."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard

from shardrel.checkpoint.preflight import read_commit, read_manifest
from shardrel.checkpoint.sharded import save_sharded
from shardrel.errors import ErrorCode, ShardrelError
from shardrel.store.local import LocalStore
from tests.support.checkpoints import RUN
from tests.support.sharded_jobs import assert_same, load_into, local, placed, purpose


def a_state(mesh: DeviceMesh, rank: int) -> dict[str, Any]:
    """A sharded tensor, and copies of others that are not alike."""
    base = torch.arange(12.0).reshape(4, 3)
    return {
        "rows": placed(base, mesh, Shard(0)),
        "copy": placed(base + rank, mesh, Replicate()),
        "norm": {"mean": torch.full((2,), float(rank)), "seen": rank},
    }


def owners(rank: int, world: int, folder: Path) -> None:
    """Refused by the rule ``equal``; by ``owner`` the declared copies are stored."""
    mesh = DeviceMesh("cpu", torch.arange(world))
    declared = {"copy": 2, "norm": 1}
    told = _refused(folder, a_state(mesh, rank), {"copy": 2})
    assert told.code == ErrorCode.CHECKPOINT_REPLICA
    assert told.context["ranks"] == ["1", "2"]
    assert "norm.mean, norm.seen" in told.message
    for wrong in ({"rows": 1}, {"norm": 3}, {"norm": 1, "norm/mean": 1}):
        assert _refused(folder, a_state(mesh, rank), {**declared, **wrong}).code == ErrorCode.INPUT_INVALID
    store = LocalStore(folder / "store")
    save_sharded(store, a_state(mesh, rank), replace(purpose(folder, 1), owners=declared))
    installed = read_commit(store, RUN, 0)
    assert installed is not None
    manifest = read_manifest(store, installed.record)
    assert manifest.owners == declared
    held = {e.name: {(r.rank, r.replicas) for r in e.regions} for e in manifest.tensors}
    assert held["copy"] == {(2, (0, 1, 2))}
    assert held["norm/mean"] == {(1, (0, 1, 2))}
    assert all(rank in replicas for rank, replicas in held["rows"])
    into = a_state(mesh, 50)
    assert load_into(folder, into) is not None
    wanted = {**a_state(mesh, 1), "copy": a_state(mesh, 2)["copy"]}
    assert_same(local(into), local(wanted))


def _refused(folder: Path, state: dict[str, Any], declared: dict[str, int]) -> ShardrelError:
    try:
        save_sharded(LocalStore(folder / "store"), state, replace(purpose(folder, 1), owners=declared))
    except ShardrelError as err:
        dist.barrier()
        return err
    raise AssertionError("it was saved")

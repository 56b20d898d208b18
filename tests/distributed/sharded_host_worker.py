"""A rank on a host of its own that saves, or loads, a state sharded by FSDP2 through torch.distributed.checkpoint.

    sharded_host_worker.py STORE DISK save|load --step N [--timeout S] [--hold WRITE:PLACE:SIDE]

It prints a digest of the whole state, gathered from all ranks.
"""

import argparse
import datetime
import hashlib
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.sharded import load_sharded, save_sharded
from shardrel.checkpoint.sharded_writer import Purpose
from shardrel.checkpoint.tensors import take_apart
from shardrel.errors import ShardrelError
from shardrel.lab.model import state_root
from shardrel.store.open import open_store
from shardrel.store.port import Store
from tests.distributed.host_worker import HoldingStore, say
from tests.support.checkpoints import ORDER, RUN, cut
from tests.support.gates import DATASET
from tests.support.sharded_jobs import Net, runner, state_of, train, whole


def digest(state: dict[str, Any]) -> str:
    """Of everything but the order of names."""
    gathered = whole(state)
    assert take_apart(gathered).specs
    return hashlib.sha256(state_root(gathered).encode()).hexdigest()


def life(store: Store, options: argparse.Namespace) -> None:
    """Save what was trained, or load it into a model that begins otherwise.

    Ranks: all.
    """
    torch.manual_seed(options.step if options.action == "save" else 99)
    model = Net()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    fully_shard(model.up, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    train(model, optimizer, options.step if options.action == "save" else 1)
    state = state_of(model, optimizer, options.step)
    if options.action == "save":
        if isinstance(store, HoldingStore):
            store.armed = True
        purpose = Purpose(dataset=DATASET, run=RUN, cut=cut(options.step), order=ORDER, signer=runner(options.disk))
        saved = save_sharded(store, state, purpose)
        say("saved", generation=saved.generation, state=digest(state))
        return
    expected = Expected(run_id=RUN, order=ORDER)
    loaded = load_sharded(store, state, dataset=DATASET, expected=expected, signer=runner(options.disk))
    assert loaded is not None
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    facts = {"generation": loaded.generation, "step": loaded.cut.step, "saved_by": loaded.world_size}
    say("loaded", **facts, helped=loaded.helped, state=digest(state))


def main() -> int:
    """One rank's life; the status is that of its failure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("disk", type=Path)
    parser.add_argument("action", choices=["save", "load"])
    parser.add_argument("--step", type=int, required=True)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--hold")
    options = parser.parse_args()
    store: Store = open_store(options.store)
    if options.hold:
        store = HoldingStore(store, options.hold)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=options.timeout))
    try:
        life(store, options)
    except ShardrelError as err:
        say("failed", code=err.code, ranks=err.context.get("ranks"))
        return err.exit_status
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())

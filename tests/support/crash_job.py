"""What a story does beside the command line: a job that saves a checkpoint, a publisher that dies."""

from pathlib import Path
from typing import Any

import msgspec
import torch

from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.recovery import recover
from shardrel.checkpoint.save import save
from shardrel.data import ledger
from shardrel.gate.call import Call
from shardrel.gate.publication import begin_publication
from shardrel.gate.view import read_gate
from shardrel.records.descriptor import PARQUET
from shardrel.store.objects import put
from shardrel.store.port import Store
from shardrel.trust import keyring
from tests.support.gates import NOW, SNAPSHOT

Printed = dict[str, Any]


def save_checkpoint(store: Store, dataset: str, run: str) -> Printed:
    """What a restarted job does: go on from what is there, and save if that is not far enough."""
    signer = keyring.load(Path(".shardrel") / "keys", "admin")
    root = read_gate(store, dataset).body.runs[run].root
    there = recover(store, dataset, Expected(run_id=run), signer)
    if there is None:
        cut = msgspec.structs.replace(ledger.genesis(root), step=1, cursor=8)
        state = {"model": {"weight": torch.arange(6.0)}, "optimizer": {"step": torch.tensor(1)}}
        save(SoloGroup(), store, state, dataset=dataset, run=run, cut=cut, order=None, signer=signer)
    return {"step": 1}


def die_in_a_publication(store: Store, dataset: str, name: str) -> Printed:
    """A pin, a shard that nothing names, and no more."""
    signer = keyring.load(Path(".shardrel") / "keys", "admin")
    call = Call(signers=[signer], recorded_at=NOW, operation_id=None, pending=None)
    begin_publication(store, dataset, name, SNAPSHOT, call)
    put(store, b"a shard that nothing names", PARQUET)
    return {"publication": name}


ACTIONS = {"checkpoint": save_checkpoint, "dead-publisher": die_in_a_publication}

"""Checkpoints of a job that trains nothing."""

from functools import cache

import torch
from msgspec.structs import replace

from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.recovery import recover
from shardrel.checkpoint.save import save
from shardrel.data import ledger
from shardrel.lab.power.home import DATASET, Home

_NUMBERS = 100_000
"""Of each tensor: three of them are more than the 1 MiB that small neighbours share, so threads write two objects."""


def save_unless_there(home: Home, run: str, root: str, step: int) -> None:
    """What a restarted job does: go on from what is there, and save where that is not far enough.

    Effects: may admit an installed commit record; a checkpoint.
    """
    there = recover(home.store, DATASET, Expected(run_id=run), home.key())
    if there is None or there.installed.record.cut.step < step:
        cut = replace(ledger.genesis(root), step=step, cursor=8 * step)
        state = _state(step)
        save(SoloGroup(), home.store, state, dataset=DATASET, run=run, cut=cut, order=None, signer=home.key())


@cache
def _state(step: int) -> dict[str, dict[str, torch.Tensor]]:
    """Of two steps, one tensor of three differs."""
    numbers = torch.arange(_NUMBERS, dtype=torch.float32)
    return {
        "model": {"head": numbers + 1, "body": numbers + 1000 * step, "tail": numbers + 3},
        "optimizer": {"step": torch.tensor(step)},
    }

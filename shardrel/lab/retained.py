"""A checkpoint as it lies in a store, read and never helped. Source: schemas/SPEC.md#crash-lab."""

import functools
from dataclasses import dataclass
from typing import Any

from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.objects import ObjectReader
from shardrel.checkpoint.preflight import Installed, preflight, region_of
from shardrel.checkpoint.recovery import admitted_in_history, read_admitted
from shardrel.checkpoint.state_tree import unflatten
from shardrel.checkpoint.tensors import assemble
from shardrel.errors import ErrorCode, NotFoundError
from shardrel.lab.evidence import Checkpoint
from shardrel.lab.model import PARTS, state_root
from shardrel.store.port import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """An admitted generation with its state."""

    installed: Installed
    state: dict[str, Any]

    @property
    def fact(self) -> Checkpoint:
        """What is written down of it."""
        record = self.installed.record
        return Checkpoint(
            generation=record.generation,
            step=record.cut.step,
            world_size=record.world_size,
            cursor=record.cut.cursor,
            ledger=record.cut.ledger,
            state_root=state_root(self.state),
        )


def read_state(store: Store, installed: Installed) -> dict[str, Any]:
    """The state of a generation, every byte checked.

    Raises:
        RefusedError: What ``preflight`` says.
        NotFoundError: ``checkpoint.missing-payload`` where it is not the state of a drill.
    """
    objects = ObjectReader(store, ())
    manifest = preflight(objects, installed.record, Expected(run_id=installed.record.run_id))
    absent = sorted(PARTS - manifest.state.keys())
    if absent:
        raise NotFoundError(ErrorCode.CHECKPOINT_MISSING, "the checkpoint lacks a part of the state", name=absent[0])
    read = functools.cache(objects.read)  # neighbouring regions share an object
    tensors = {
        entry.name: assemble(entry, lambda region: region_of(read(region.object), region)) for entry in manifest.tensors
    }
    return unflatten(manifest.state, tensors)


def retained(store: Store, dataset: str, run: str) -> list[Retained]:
    """All generations that the gate's checked history admitted, oldest first.

    Raises:
        IntegrityError: ``gate.history-broken``.
        RefusedError: What ``preflight`` says of one.
    """
    found = []
    for generation, admission in sorted(admitted_in_history(store, dataset, run).items()):
        installed = read_admitted(store, run, generation, admission.commit)
        found.append(Retained(installed=installed, state=read_state(store, installed)))
    return found

"""A training job in about ten lines: steps, checkpoints, resume. Source: schemas/SPEC.md#runs, #checkpoints."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from shardrel.checkpoint.group import Group
from shardrel.checkpoint.load import load
from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.replicas import NO_OWNERS, Owners
from shardrel.checkpoint.save import Saved, save
from shardrel.data import ledger
from shardrel.data.batches import StepBatch
from shardrel.data.cache import ShardCache
from shardrel.records.checkpoint import Cut
from shardrel.store.port import Store
from shardrel.train.life import NotSaved, saved_or_policy
from shardrel.train.loader import dataset, steps_left
from shardrel.train.pin import PinnedRun
from shardrel.train.watch import TimedGroup, watched
from shardrel.trust.signer import Signer


class Part(Protocol):
    """Something with state: a module, an optimizer, a scheduler, ``TorchRandom``."""

    def state_dict(self) -> dict[str, Any]:
        """Its state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any:
        """Take a state."""
        ...


class TorchRandom:
    """The state of torch's CPU generator; seeded alike on every rank, it is part of the one state of a cut."""

    def state_dict(self) -> dict[str, Any]:
        """State of the default generator."""
        return {"cpu": torch.get_rng_state()}

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        """Set the default generator."""
        torch.set_rng_state(state_dict["cpu"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """Where training goes on.

    Attributes:
        generation: Of the restored checkpoint; null at the run's beginning.
        world_size: Of the job that saved it.
        helped: Its admission was finished by this resume.
        passed_over: Newer generations, with the code that each was refused for.
    """

    cut: Cut
    generation: int | None
    world_size: int | None
    helped: bool
    passed_over: tuple[tuple[int, str], ...]


def resume(group: Group, store: Store, pin: PinnedRun, parts: Mapping[str, Part], *, signer: Signer | None) -> Resumed:
    """Restore the parts from the newest complete checkpoint, saved at any world size; or start at step 0.

    Raises:
        RunFailedError: On every rank alike; no part was touched.

    Ranks: all; ``signer`` is needed on the coordinator.
    """
    expected = Expected(run_id=pin.record.run_id, root=pin.root, order=pin.parameters)
    group = TimedGroup(group, pin.watch)
    pin.kept.forget()  # the head may be damaged, and a save goes on from it all the same
    with pin.watch.failures():
        restored = load(
            group, store, dataset=pin.record.dataset, expected=expected, required=tuple(parts), signer=signer
        )
    if restored is None:
        return Resumed(cut=ledger.genesis(pin.identity), generation=None, world_size=None, helped=False, passed_over=())
    for name, part in parts.items():
        part.load_state_dict(restored.state[name])
    pin.watch.say("resumed", generation=restored.generation, step=restored.cut.step, savedBy=restored.world_size)
    return Resumed(
        cut=restored.cut,
        generation=restored.generation,
        world_size=restored.world_size,
        helped=restored.helped,
        passed_over=restored.passed_over,
    )


def steps(
    group: Group, cache: ShardCache, pin: PinnedRun, cut: Cut, *, until: int | None = None
) -> Iterator[StepBatch]:
    """Steps from a cut on.

    Args:
        group: All ranks.
        cache: Of this host.
        pin: What ``join`` gave.
        cut: What was consumed before.
        until: The step to end before, counted from the run's beginning and so over all restarts; None for no end.

    Ranks: all.
    """
    batches = dataset(group, cache, pin, cut, steps=steps_left(until, cut))
    return watched(batches, pin.watch, lambda batch: batch.size)


def checkpoint(
    group: Group,
    store: Store,
    pin: PinnedRun,
    parts: Mapping[str, Part],
    cut: Cut,
    *,
    signer: Signer | None,
    owners: Owners = NO_OWNERS,
) -> Saved | NotSaved:
    """Save the parts as of a cut; on return the gate has admitted it, or the plan lets the job go on without.

    What has not changed since this process's last checkpoint is named again and not written. All ranks hold the same,
    but for what lies below ``owners``' paths: of that the named rank's copy is the checkpoint's.

    Raises:
        RunFailedError: On every rank alike; ``permit.closed`` names the fence in its message.

    Ranks: all; ``signer`` is needed on the coordinator.
    """
    group = TimedGroup(group, pin.watch)
    state = {name: part.state_dict() for name, part in parts.items()}

    def write() -> Saved:
        return save(
            group,
            store,
            state,
            dataset=pin.record.dataset,
            run=pin.record.run_id,
            cut=cut,
            order=pin.parameters,
            signer=signer,
            kept=pin.kept,
            owners=owners,
        )

    with pin.watch.failures():
        return saved_or_policy(group, store, pin, cut.step, signer, write)

"""Restore the newest complete checkpoint of a run at any world size. Source: schemas/SPEC.md#checkpoints."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from shardrel.canonical import json
from shardrel.checkpoint.attempts import needed
from shardrel.checkpoint.group import Group, on_coordinator, together
from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.objects import ObjectReader
from shardrel.checkpoint.preflight import read_manifest, region_of
from shardrel.checkpoint.recovery import NONE_REFUSED, Selected, recover
from shardrel.checkpoint.state_tree import unflatten
from shardrel.checkpoint.tensors import assemble
from shardrel.errors import ErrorCode, NotFoundError
from shardrel.records.checkpoint import CheckpointManifest, CommitRecord, Cut, Region
from shardrel.records.descriptor import Descriptor
from shardrel.records.fields import Count, Record
from shardrel.store.port import Store
from shardrel.trust.signer import Signer

_KEEP_OBJECTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A checkpoint in memory.

    Attributes:
        state: As it was handed to ``save``, dicts and lists anew, tensors on the CPU.
        world_size: Of the job that saved it.
        helped: Its commit record was installed but not admitted when this restore began.
        passed_over: Newer generations that could not be restored, and why, newest first.
    """

    generation: int
    cut: Cut
    world_size: int
    state: dict[str, Any]
    helped: bool
    passed_over: tuple[tuple[int, str], ...]


class Passed(Record, frozen=True, kw_only=True):
    """A generation passed over, as the coordinator tells it."""

    generation: Count
    code: str


class Choice(Record, frozen=True, kw_only=True):
    """What the coordinator selected; null when the run has no checkpoint."""

    commit: CommitRecord | None
    helped: bool
    passed_over: tuple[Passed, ...]


def load(
    group: Group,
    store: Store,
    *,
    dataset: str,
    expected: Expected,
    required: tuple[str, ...],
    signer: Signer | None,
    replicas: Sequence[Store] = (),
) -> Restored | None:
    """Restore the newest complete checkpoint of a run, the same one on every rank.

    1. The coordinator recovers: helps an installed commit record, preflights, selects. 2. Every rank restores
    every tensor, each region checked against its digest. 3. All agree that all succeeded.

    Args:
        group: The ranks.
        store: Where the run's objects are.
        dataset: The gate of the run.
        expected: What the checkpoint must be of.
        required: Names that the caller's state has; all must be in the checkpoint.
        signer: A key of the runner's role; needed on the coordinator.
        replicas: Stores that are asked for what is absent or damaged in the run's own.

    Returns:
        Null when the run has no checkpoint yet.

    Raises:
        RunFailedError: On every rank alike, with the code of what is wrong. Nothing is restored in part.

    Ranks: all.
    """
    choice = json.decode(
        on_coordinator(group, lambda: choose(store, dataset, expected, signer, replicas=replicas)), Choice
    )
    commit = choice.commit
    if commit is None:
        return None
    states: list[dict[str, Any]] = []

    def restore() -> bytes:
        states.append(_restore(ObjectReader(store, replicas), read_manifest(store, commit), required))
        return b""

    together(group, restore)
    return Restored(
        generation=commit.generation,
        cut=commit.cut,
        world_size=commit.world_size,
        state=states[0],
        helped=choice.helped,
        passed_over=tuple((passed.generation, passed.code) for passed in choice.passed_over),
    )


def choose(
    store: Store,
    dataset: str,
    expected: Expected,
    signer: Signer | None,
    refused: Mapping[int, ErrorCode] = NONE_REFUSED,
    *,
    replicas: Sequence[Store] = (),
    every_byte: bool = True,
) -> bytes:
    """A ``Choice``, encoded for all ranks; see ``recovery.recover``.

    Ranks: the coordinator.
    """
    selected = recover(
        store, dataset, expected, needed(signer), replicas=replicas, refused=refused, every_byte=every_byte
    )
    return json.encode(_choice(selected))


def _choice(selected: Selected | None) -> Choice:
    if selected is None:
        return Choice(commit=None, helped=False, passed_over=())
    passed = tuple(Passed(generation=one.generation, code=one.code) for one in selected.passed_over)
    return Choice(commit=selected.installed.record, helped=selected.helped, passed_over=passed)


def _restore(objects: ObjectReader, manifest: CheckpointManifest, required: tuple[str, ...]) -> dict[str, Any]:
    for name in required:
        if name not in manifest.state:
            raise NotFoundError(ErrorCode.CHECKPOINT_MISSING, "the checkpoint lacks a part of the state", name=name)
    recent = _Recent(objects)
    tensors: Mapping[str, torch.Tensor] = {entry.name: assemble(entry, recent.region) for entry in manifest.tensors}
    return unflatten(manifest.state, tensors)


class _Recent:
    """The last few objects read, since neighbours in a manifest often share one."""

    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects
        self._kept: OrderedDict[Descriptor, bytes] = OrderedDict()

    def region(self, region: Region) -> bytes | memoryview:
        if region.object not in self._kept:
            self._kept[region.object] = self._objects.read(region.object)
            while len(self._kept) > _KEEP_OBJECTS:
                self._kept.popitem(last=False)
        return region_of(self._kept[region.object], region)

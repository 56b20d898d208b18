"""Which rank stores which region of replicated tensors. Source: schemas/SPEC.md#checkpoints.

Every rank holds every tensor; each stores a part. Large tensors are cut along their first dimension
over all ranks, small ones go whole to one rank each, in turn. Both are pure functions of the
tensors and the world size, so no rank has to be asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from shardrel.checkpoint.coverage import Box
from shardrel.checkpoint.replicas import NO_OWNERS, Owners, owner_of

LARGE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """Name, global shape, dtype and bytes an element of one logical tensor."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    item_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A region that a rank stores; ``tensor`` is the position in the list of tensors."""

    tensor: int
    box: Box


def owned_regions(tensors: Sequence[TensorSpec], rank: int, world_size: int, owners: Owners = NO_OWNERS) -> list[Owned]:
    """Regions of one rank, in order of the tensors. Over all ranks they tile every tensor.

    What has a declared owner is stored by that rank whole.
    """
    regions = []
    for index, spec in enumerate(tensors):
        box = _declared_box(spec, index, rank, world_size, owners)
        if box is not None:
            regions.append(Owned(tensor=index, box=box))
    return regions


def _declared_box(spec: TensorSpec, index: int, rank: int, world_size: int, owners: Owners) -> Box | None:
    owner = owner_of(spec.name, owners)
    if owner is None:
        return _owned_box(spec, index, rank, world_size)
    return _whole(spec) if owner == rank else None


def _whole(spec: TensorSpec) -> Box | None:
    return None if 0 in spec.shape else Box((0,) * len(spec.shape), spec.shape)


def _owned_box(spec: TensorSpec, index: int, rank: int, world_size: int) -> Box | None:
    whole = _whole(spec)
    if whole is None:
        return None
    if not spec.shape or prod(spec.shape) * spec.item_bytes < LARGE:
        return whole if index % world_size == rank else None
    low, high = rank * spec.shape[0] // world_size, (rank + 1) * spec.shape[0] // world_size
    if low == high:
        return None
    return Box((low, *whole.offsets[1:]), (high - low, *spec.shape[1:]))


def pack(lengths: Sequence[int], limit: int = LARGE) -> list[range]:
    """Group a rank's regions into objects: one object for a large region, small neighbours together.

    Large regions stay alone so that an unchanged one is the same object in the next checkpoint.
    """
    groups: list[range] = []
    start, total = 0, 0
    for index, length in enumerate(lengths):
        if index > start and total + length > limit:
            groups.append(range(start, index))
            start, total = index, 0
        total += length
    if start < len(lengths):
        groups.append(range(start, len(lengths)))
    return groups

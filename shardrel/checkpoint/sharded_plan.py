"""Planners of torch.distributed.checkpoint whose values are typed trees; nothing is pickled.

They are DCP's own, with four differences: values other than tensors become typed trees (or are refused), what can't be
restored bit for bit is refused, what several ranks hold alike is compared before one of them stores it, and coverage is
checked by the rule that a restore checks it by. Source: schemas/SPEC.md#checkpoints
"""

import dataclasses
import io
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
    create_default_global_save_plan,
)
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner import LoadPlan, ReadItem, SavePlan, WriteItem, WriteItemType
from torch.distributed.tensor import DTensor, Replicate

from shardrel.canonical import json
from shardrel.checkpoint.coverage import Box, Gap, Tiled, coverage
from shardrel.checkpoint.dtypes import ITEM_BYTES
from shardrel.checkpoint.leaves import tensor_name
from shardrel.checkpoint.replicas import NO_OWNERS, Owners, check_owners, owner_of
from shardrel.checkpoint.state_tree import flatten, unflatten
from shardrel.checkpoint.tensors import checksum
from shardrel.errors import ErrorCode, FormatError, InvalidInputError, NotFoundError, RefusedError, RunFailedError
from shardrel.records.checkpoint import MAX_DIMENSIONS

_AT_MOST_NAMED = 10


class TreeBytes(io.BytesIO):
    """Canonical JSON of a typed tree: the only bytes that the storage writer takes."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LocalFacts:
    """What a rank's plan says beside its items: paths by dotted name, and checksums of what others hold too."""

    paths: dict[str, tuple[str | int, ...]]
    sums: dict[MetadataIndex, str]


class TreeSavePlanner(DefaultSavePlanner):
    """``planner=TreeSavePlanner()`` for ``dcp.save``; a new one for every save.

    Args:
        owners: Ranks by the paths of which their copies are the checkpoint's; equal on all ranks.
    """

    def __init__(self, owners: Owners = NO_OWNERS) -> None:
        super().__init__()
        self._owners = owners

    def create_local_plan(self) -> SavePlan:
        """Items of this rank.

        Raises:
            InvalidInputError: ``checkpoint.unsupported-state``, with the path.
        """
        for name, value in self.state_dict.items():
            _check_kind(name, value)
        plan = super().create_local_plan()
        paths = self._paths()
        owned = {name: owner_of(tensor_name(path), self._owners) for name, path in paths.items()}
        compared = [item for item in plan.items if owned[item.index.fqn] is None and self._is_shared(item)]
        sums = {item.index: self._checksum(item) for item in compared}
        return dataclasses.replace(plan, planner_data=LocalFacts(paths=paths, sums=sums))

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Who stores what.

        Raises:
            RunFailedError: ``checkpoint.replica``: ranks hold different copies of one thing.
            InvalidInputError: ``input.invalid``: a declared owner that is none.
            RefusedError: ``checkpoint.gap``, ``checkpoint.overlap``.

        Ranks: the coordinator.
        """
        check_owners(self._owners, len(all_plans))
        holders = _holders(all_plans)
        paths = dict(ChainMap(*(plan.planner_data.paths for plan in reversed(all_plans))))
        kept = [
            dataclasses.replace(plan, planner_data={item.index: holders[item.index] for item in plan.items})
            for plan in self._dedup_save_plans(_of_owners(all_plans, paths, self._owners))
        ]
        # Indices get hints in the next step, which are no part of their equality.
        plans, metadata = create_default_global_save_plan(kept)
        for name, described in metadata.state_dict_metadata.items():
            if isinstance(described, TensorStorageMetadata):
                _check_coverage(name, described)
        return plans, dataclasses.replace(metadata, planner_data=paths)

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:  # noqa: A002 (torch's name)
        """Values other than tensors, as trees."""
        if write_item.type != WriteItemType.BYTE_IO:
            return super().transform_object(write_item, object)
        return TreeBytes(_encoded(write_item.index.fqn, object))

    def _paths(self) -> dict[str, tuple[str | int, ...]]:
        return dict(self.mappings) if self.flatten_state_dict else {name: (name,) for name in self.state_dict}

    def _is_shared(self, item: WriteItem) -> bool:
        value = self.state_dict[item.index.fqn]
        if isinstance(value, DTensor):
            return any(isinstance(placement, Replicate) for placement in value.placements)
        return item.type != WriteItemType.SHARD

    def _checksum(self, item: WriteItem) -> str:
        data = self.resolve_data(item)
        return checksum(data) if isinstance(data, torch.Tensor) else data.getvalue().hex()


class TreeLoadPlanner(DefaultLoadPlanner):
    """``planner=TreeLoadPlanner()`` for ``dcp.load``."""

    def create_local_plan(self) -> LoadPlan:
        """What this rank reads.

        Raises:
            NotFoundError: ``checkpoint.missing-payload``: the state has a name that the checkpoint lacks.
            RefusedError: ``checkpoint.unsupported-schema``: another shape or type; nothing is converted.
        """
        assert self.metadata is not None
        stored = self.metadata.state_dict_metadata
        for name, value in self.state_dict.items():
            if name in stored:
                _check_fits(name, value, stored[name])
            elif not self.allow_partial_load:
                raise NotFoundError(
                    ErrorCode.CHECKPOINT_MISSING, "the checkpoint lacks a part of the state", subject=name
                )
        return super().create_local_plan()

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Put a value other than a tensor in its place."""
        decoded = unflatten({"value": json.decode(value.getvalue(), dict[str, Any])["tree"]}, {})["value"]
        self._put(read_item.dest_index.fqn, decoded)

    def _put(self, name: str, value: Any) -> None:
        if not self.flatten_state_dict:
            self.state_dict[name] = value
            return
        *parents, last = self.mappings[name]
        at: Any = self.original_state_dict
        for part in parents:
            at = at[part if isinstance(part, int) else _key(at, part)]
        at[last if isinstance(last, int) else _key(at, last)] = value


def _key(container: dict[Any, Any], text: str) -> Any:
    """The key that DCP spells as a string."""
    return text if text in container else next((key for key in container if str(key) == text), text)


def _encoded(name: str, value: Any) -> bytes:
    trees, _ = flatten({name: value}, lambda _: False)
    return json.encode({"tree": trees[name]})


def _check_kind(name: str, value: Any) -> None:
    if not isinstance(value, torch.Tensor):
        return
    local = value.to_local() if isinstance(value, DTensor) else value
    plain = type(local) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    known = str(value.dtype).removeprefix("torch.") in ITEM_BYTES and value.ndim <= MAX_DIMENSIONS
    partial = isinstance(value, DTensor) and any(placement.is_partial() for placement in value.placements)
    if not plain or not known or partial or local.layout != torch.strided or local.is_meta:
        raise InvalidInputError(
            ErrorCode.CHECKPOINT_STATE_TYPE, "a checkpoint can't hold a tensor of this kind", path=name
        )


def _holders(plans: Sequence[SavePlan]) -> dict[MetadataIndex, tuple[int, ...]]:
    """Ranks by what they hold, whose copies were compared with those of the lowest one."""
    held: dict[MetadataIndex, list[int]] = {}
    first: dict[MetadataIndex, str | None] = {}
    others: dict[str, set[int]] = {}
    for rank, item in _items(plans):
        mine = plans[rank].planner_data.sums.get(item.index)
        if first.setdefault(item.index, mine) != mine:
            others.setdefault(item.index.fqn, set()).add(rank)
        held.setdefault(item.index, []).append(rank)
    if others:
        pieces = sorted(others)[:_AT_MOST_NAMED]
        raise RunFailedError(
            ErrorCode.CHECKPOINT_REPLICA,
            f"ranks hold different copies of one thing, so there is no one state to save: {', '.join(pieces)}",
            field="replica",
            ranks=[str(rank) for rank in sorted(set().union(*others.values()))],
            pieces=pieces,
        )
    return {index: tuple(ranks) for index, ranks in held.items()}


def _of_owners(plans: Sequence[SavePlan], paths: Mapping[str, tuple[str | int, ...]], owners: Owners) -> list[SavePlan]:
    """Plans in which only the declared owner stores what it owns.

    Raises:
        InvalidInputError: ``input.invalid``: it has no copy.
    """
    owned = {name: owner_of(tensor_name(path), owners) for name, path in paths.items()}
    there = {item.index for rank, item in _items(plans) if owned[item.index.fqn] == rank}
    for _, item in _items(plans):
        if owned[item.index.fqn] is not None and item.index not in there:
            raise InvalidInputError(
                ErrorCode.INPUT_INVALID, "a declared owner has no copy of what it owns", path=item.index.fqn
            )
    return [
        dataclasses.replace(plan, items=[item for item in plan.items if owned[item.index.fqn] in (None, rank)])
        for rank, plan in enumerate(plans)
    ]


def _items(plans: Sequence[SavePlan]) -> Iterator[tuple[int, WriteItem]]:
    for rank, plan in enumerate(plans):
        for item in plan.items:
            yield rank, item


def _check_coverage(name: str, described: TensorStorageMetadata) -> None:
    boxes = [Box(tuple(chunk.offsets), tuple(chunk.sizes)) for chunk in described.chunks if 0 not in chunk.sizes]
    verdict = coverage(tuple(described.size), boxes)
    if not isinstance(verdict, Tiled):
        code = ErrorCode.CHECKPOINT_GAP if isinstance(verdict, Gap) else ErrorCode.CHECKPOINT_OVERLAP
        raise RefusedError(code, "the ranks' parts don't make the whole tensor", subject=name)


def _check_fits(name: str, value: Any, stored: Any) -> None:
    tensor = isinstance(value, torch.Tensor)
    if tensor != isinstance(stored, TensorStorageMetadata):
        raise FormatError(ErrorCode.CHECKPOINT_SCHEMA, "the state has another kind of value there", subject=name)
    if tensor and (value.shape, value.dtype) != (stored.size, stored.properties.dtype):
        raise FormatError(
            ErrorCode.CHECKPOINT_SCHEMA, "the state has another shape or element type there", subject=name
        )

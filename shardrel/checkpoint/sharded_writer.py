"""A storage writer of torch.distributed.checkpoint that ends in a commit record. Source: schemas/SPEC.md#checkpoints.

DCP plans, and moves the plans between ranks; what a rank is told and tells here are canonical JSON bytes inside of
those. Nothing is a checkpoint before the gate has admitted it, whatever DCP says.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future

from shardrel.canonical import json
from shardrel.checkpoint.attempts import Attempt, Committed, begin, commit, manifest_of, needed
from shardrel.checkpoint.coverage import Box
from shardrel.checkpoint.dtypes import ITEM_BYTES
from shardrel.checkpoint.leaves import Path, grow, tensor_name
from shardrel.checkpoint.parameter_numbers import with_numbers
from shardrel.checkpoint.replicas import Owners
from shardrel.checkpoint.sharded_plan import TreeBytes
from shardrel.checkpoint.tensors import elements_of
from shardrel.checkpoint.writing import Kept, Piece, Stamp, write_pieces
from shardrel.errors import ErrorCode, InvalidInputError, RunFailedError
from shardrel.records.checkpoint import Cut, OrderParameters, Region, TensorEntry
from shardrel.records.fields import Count, Record
from shardrel.store.port import Store
from shardrel.trust.signer import Signer


class Order(Record, frozen=True, kw_only=True):
    """What the coordinator tells one rank."""

    attempt: Attempt
    rank: Count
    cut: Cut


class Told(Record, frozen=True, kw_only=True):
    """What a rank stored of one item: the regions of a tensor; or ``value``, whose ``tree`` goes into the manifest."""

    attempt: str
    regions: tuple[Region, ...]
    value: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """What the checkpoint is of. Equal on all ranks, except that ``signer`` is needed on the coordinator alone.

    Attributes:
        owners: Ranks by the paths of state of which their copies are the checkpoint's, whatever the others hold.
    """

    dataset: str
    run: str
    cut: Cut
    order: OrderParameters | None
    signer: Signer | None
    owners: Owners = field(default_factory=dict)


class CommitWriter(StorageWriter):
    """``storage_writer=CommitWriter(store, purpose)`` for ``dcp.save``, with ``planner=TreeSavePlanner(purpose.owners)``.

    One for each save. After ``dcp.save`` returned, ``committed`` of what it returned tells what the gate admitted.
    """

    def __init__(self, store: Store, purpose: Purpose, kept: Kept | None = None) -> None:
        self._store = store
        self._kept = kept or Kept()
        self._purpose = purpose
        self._attempt: Attempt | None = None

    def reset(self, checkpoint_id: Any = None) -> None:
        """A run and the gate name a checkpoint; DCP's id has no say.

        Raises:
            InvalidInputError: ``input.invalid`` where one is given.
        """
        if checkpoint_id is not None:
            raise InvalidInputError(ErrorCode.INPUT_INVALID, "leave checkpoint_id out: the gate counts generations")

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """No id is one of ours."""
        return False

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Nothing."""

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Say which moment this rank captured."""
        return replace(plan, storage_data=json.encode(self._purpose.cut))

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Open the attempt, and hand it to all ranks.

        Raises:
            RunFailedError: ``checkpoint.cut``.
            RefusedError: ``permit.closed``.

        Ranks: the coordinator.
        """
        own = json.encode(self._purpose.cut)
        others = [str(rank) for rank, plan in enumerate(plans) if plan.storage_data != own]
        if others:
            raise RunFailedError(
                ErrorCode.CHECKPOINT_CUT, "ranks are at another cut than the coordinator", field="cut", ranks=others
            )
        purpose = self._purpose
        attempt = self._attempt = begin(self._store, purpose.dataset, purpose.run, purpose.signer)
        return [
            replace(plan, storage_data=json.encode(Order(attempt=attempt, rank=rank, cut=purpose.cut)))
            for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Store this rank's items; durable on return.

        Effects: objects.
        """
        order = json.decode(plan.storage_data, Order)
        holders = plan.planner_data if isinstance(plan.planner_data, dict) else {}
        tensors = [item for item in plan.items if item.type != WriteItemType.BYTE_IO and _box(item) is not None]
        pieces = [_piece(item, planner, holders.get(item.index, (order.rank,))) for item in tensors]
        opened = order.attempt
        stamp = Stamp(rank=order.rank, attempt=opened.attempt, step=order.cut.step, parent=opened.parent)
        stored: dict[MetadataIndex, list[Region]] = {}
        for one in write_pieces(self._store, pieces, stamp, self._kept):
            stored.setdefault(tensors[one.piece].index, []).append(one.region)
        future: Future[list[WriteResult]] = Future()
        future.set_result([_told(item, stored.get(item.index, []), planner, stamp) for item in plan.items])
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Manifest, commit record, gate. What the gate admitted is told to all ranks in the metadata.

        Raises:
            RunFailedError: ``checkpoint.cut``: a result is of another attempt.
            ConflictError: ``gate.checkpoint-order``.
            RefusedError: ``permit.closed``, …

        Ranks: the coordinator.
        """
        attempt, purpose = self._attempt, self._purpose
        assert attempt is not None
        paths: dict[str, Path] = metadata.planner_data
        found = _by_name(results, attempt.attempt)
        entries = [
            TensorEntry(
                name=tensor_name(paths[name]),
                shape=tuple(described.size),
                dtype=str(described.properties.dtype).removeprefix("torch."),
                regions=tuple(sorted(found.regions.get(name, []), key=lambda region: region.offsets)),
            )
            for name, described in metadata.state_dict_metadata.items()
            if isinstance(described, TensorStorageMetadata)
        ]
        values = {
            path: found.trees[name] if name in found.trees else {"$": "tensor", "v": tensor_name(path)}
            for name, path in paths.items()
        }
        entries.sort(key=lambda entry: entry.name)
        trees = with_numbers(grow(values))
        manifest = manifest_of(attempt, purpose.cut, purpose.order, entries, trees, len(results), purpose.owners)
        done = commit(self._store, purpose.dataset, manifest, attempt, needed(purpose.signer))
        metadata.storage_data = json.encode(done)


def committed(metadata: Metadata) -> Committed:
    """What the gate admitted, of what ``dcp.save`` with a ``CommitWriter`` returned.

    Ranks: any.
    """
    return json.decode(metadata.storage_data, Committed)


@dataclass(slots=True)
class _Found:
    regions: dict[str, list[Region]]
    trees: dict[str, Any]


def _by_name(results: Sequence[Sequence[WriteResult]], attempt: str) -> _Found:
    found = _Found({}, {})
    for rank, told in enumerate(results):
        for one in told:
            result = json.decode(one.storage_data, Told)
            if result.attempt != attempt:
                raise RunFailedError(
                    ErrorCode.CHECKPOINT_CUT,
                    "a rank's answer is of another attempt",
                    field="attempt",
                    ranks=[str(rank)],
                )
            if result.value is not None:
                found.trees[one.index.fqn] = result.value["tree"]
            else:
                found.regions.setdefault(one.index.fqn, []).extend(result.regions)
    return found


def _told(item: WriteItem, regions: list[Region], planner: SavePlanner, stamp: Stamp) -> WriteResult:
    if item.type != WriteItemType.BYTE_IO:
        told = Told(attempt=stamp.attempt, regions=tuple(regions), value=None)
        return WriteResult(item.index, sum(region.length for region in regions), json.encode(told))
    data = planner.resolve_data(item)
    if not isinstance(data, TreeBytes):
        raise InvalidInputError(
            ErrorCode.CHECKPOINT_STATE_TYPE,
            "a checkpoint holds no pickled values; save with planner=TreeSavePlanner()",
            path=item.index.fqn,
        )
    told = Told(attempt=stamp.attempt, regions=(), value=json.decode(data.getvalue(), dict[str, Any]))
    return WriteResult(item.index, len(data.getvalue()), json.encode(told))


def _box(item: WriteItem) -> Box | None:
    """Where an item lies in its tensor; null where it has no element."""
    assert item.tensor_data is not None
    chunk = item.tensor_data.chunk
    return None if 0 in chunk.sizes else Box(tuple(chunk.offsets), tuple(chunk.sizes))


def _piece(item: WriteItem, planner: SavePlanner, replicas: tuple[int, ...]) -> Piece:
    box = _box(item)
    assert box is not None
    assert item.tensor_data is not None

    def elements(part: Box) -> npt.NDArray[np.uint8]:
        tensor: Any = planner.resolve_data(item)
        return elements_of(tensor.detach(), box.offsets)(part)

    dtype = str(item.tensor_data.properties.dtype).removeprefix("torch.")
    return Piece(box=box, item_bytes=ITEM_BYTES[dtype], elements=elements, replicas=replicas)

"""A storage reader of torch.distributed.checkpoint over a committed checkpoint. Source: schemas/SPEC.md#checkpoints.

Every region is hashed before its elements reach a tensor. A rank reads the objects that hold what it wants, a few at a
time, so its memory is its own state and a few objects, at any world size.
"""

import io
import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future

from shardrel.canonical import json
from shardrel.checkpoint.leaves import leaves
from shardrel.checkpoint.objects import ObjectReader
from shardrel.checkpoint.preflight import region_of
from shardrel.checkpoint.sharded_plan import TreeLoadPlanner
from shardrel.checkpoint.writing import THREADS
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.checkpoint import CheckpointManifest, Region, TensorEntry
from shardrel.records.descriptor import Descriptor


class CommittedReader(StorageReader):
    """``storage_reader=CommittedReader(manifest, objects)`` for ``dcp.load``, with ``planner=TreeLoadPlanner()``."""

    def __init__(self, manifest: CheckpointManifest, objects: ObjectReader) -> None:
        entries = {entry.name: entry for entry in manifest.tensors}
        found = leaves(manifest.state)
        self._objects = objects
        self._paths = {leaf.dotted: leaf.path for leaf in found}
        self._trees = {leaf.dotted: leaf.tree for leaf in found if leaf.tensor is None}
        self._tensors = {leaf.dotted: entries[leaf.tensor] for leaf in found if leaf.tensor is not None}
        self._regions = {
            (name, region.offsets): region for name, entry in self._tensors.items() for region in entry.regions
        }

    def reset(self, checkpoint_id: Any = None) -> None:
        """Nothing."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """No id is one of ours."""
        return False

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the manifest says, in DCP's words."""
        described: dict[str, Any] = {name: BytesStorageMetadata() for name in self._trees}
        described |= {name: _described(entry) for name, entry in self._tensors.items()}
        return Metadata(state_dict_metadata=described, planner_data=dict(self._paths))

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Nothing."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """The plans as they are."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Fill this rank's tensors and values.

        Raises:
            NotFoundError: ``storage.object-absent``.
            IntegrityError: ``storage.digest-mismatch``, ``checkpoint.bytes``, …
            InvalidInputError: ``input.invalid``: a planner that would unpickle.
        """
        by_object: dict[Descriptor, list[ReadItem]] = {}
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                self._give_tree(item, planner)
            else:
                by_object.setdefault(self._region(item).object, []).append(item)
        lock = threading.Lock()
        with ThreadPoolExecutor(THREADS) as pool:
            for _ in pool.map(lambda of: self._fill(of[0], of[1], planner, lock), by_object.items()):
                pass
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _give_tree(self, item: ReadItem, planner: LoadPlanner) -> None:
        if not isinstance(planner, TreeLoadPlanner):
            raise InvalidInputError(
                ErrorCode.INPUT_INVALID, "a checkpoint holds no pickled values; load with planner=TreeLoadPlanner()"
            )
        planner.load_bytes(item, io.BytesIO(json.encode({"tree": self._trees[item.storage_index.fqn]})))

    def _region(self, item: ReadItem) -> Region:
        index = item.storage_index
        return self._regions[index.fqn, tuple(index.offset or ())]

    def _fill(
        self, descriptor: Descriptor, items: Sequence[ReadItem], planner: LoadPlanner, lock: threading.Lock
    ) -> None:
        data = self._objects.read(descriptor)
        checked: dict[tuple[int, int], bytes | memoryview] = {}
        for item in items:
            region = self._region(item)
            place = (region.start, region.length)
            if place not in checked:
                checked[place] = region_of(data, region)
            stored = as_tensor(checked[place], self._tensors[item.storage_index.fqn].dtype, region.sizes)
            wanted = stored[tuple(slice(o, o + n) for o, n in zip(item.storage_offsets, item.lengths, strict=True))]
            with lock:
                target = planner.resolve_tensor(item).detach()
            target.copy_(wanted)
            with lock:
                planner.commit_tensor(item, target)


def as_tensor(data: bytes | memoryview, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    """A tensor of stored elements, not copied; only to be read from."""
    kind: torch.dtype = getattr(torch, dtype)
    octets = torch.frombuffer(data, dtype=torch.uint8)
    if octets.data_ptr() % kind.itemsize:
        octets = octets.clone()  # a small region behind one with smaller elements
    return octets.view(kind).reshape(shape)


with warnings.catch_warnings():
    # torch says once in a process that it can't keep anybody from writing to read-only bytes; nobody does here.
    warnings.simplefilter("ignore")
    torch.frombuffer(b"\0", dtype=torch.uint8)


def _described(entry: TensorEntry) -> TensorStorageMetadata:
    return TensorStorageMetadata(
        properties=TensorProperties(dtype=getattr(torch, entry.dtype)),
        size=torch.Size(entry.shape),
        chunks=[_chunk(region) for region in entry.regions],
    )


def _chunk(region: Region) -> ChunkStorageMetadata:
    return ChunkStorageMetadata(offsets=torch.Size(region.offsets), sizes=torch.Size(region.sizes))

"""A checkpoint in torch.distributed.checkpoint's own files, for programs that read only those.

Their metadata is a pickle, which torch writes; nothing here reads one. Source: schemas/SPEC.md#checkpoint-exchange
"""

import warnings
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

import torch
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from shardrel.checkpoint.leaves import Path, leaves
from shardrel.checkpoint.objects import ObjectReader
from shardrel.checkpoint.sharded_plan import TreeLoadPlanner
from shardrel.checkpoint.sharded_reader import CommittedReader
from shardrel.checkpoint.state_tree import unflatten
from shardrel.errors import ErrorCode, InvalidInputError, unwritable
from shardrel.records.checkpoint import CheckpointManifest


def export_dcp(objects: ObjectReader, manifest: CheckpointManifest, folder: FilePath) -> FilePath:
    """Write a checkpoint that ``dcp.load(state, checkpoint_id=folder)`` reads. The state is in memory once.

    Args:
        objects: Where the checkpoint's objects are.
        manifest: The checkpoint, judged.
        folder: Absent or empty.

    Raises:
        InvalidInputError: ``input.invalid``: something is there, or it can't be written.
        NotFoundError, IntegrityError: An object is absent or has other bytes.

    Effects: the files, of which ``.metadata`` comes last.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"{folder} is not an empty folder", path=str(folder))
    entries = {entry.name: entry for entry in manifest.tensors}
    state: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    for leaf in leaves(manifest.state):
        paths[leaf.dotted] = leaf.path
        if leaf.tensor is None:
            state[leaf.dotted] = unflatten({"value": leaf.tree}, {})["value"]
        else:
            entry = entries[leaf.tensor]
            state[leaf.dotted] = torch.empty(entry.shape, dtype=getattr(torch, entry.dtype))
    reader = CommittedReader(manifest, objects)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that one process is all there is
            load(state, storage_reader=reader, planner=TreeLoadPlanner(flatten_state_dict=False), no_dist=True)
            save(state, storage_writer=FileSystemWriter(folder), planner=_Planner(paths), no_dist=True)
    except OSError as err:
        raise unwritable(folder, err) from err
    return folder


class _Planner(DefaultSavePlanner):
    """Tells the paths of the state's dicts and lists, from which DCP's own tools build them again."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        super().__init__()
        self._paths = dict(paths)

    def set_up_planner(self, *args: Any, **kwargs: Any) -> None:
        """The default, with the paths of what was flat already."""
        super().set_up_planner(*args, **kwargs)
        self.mappings = self._paths

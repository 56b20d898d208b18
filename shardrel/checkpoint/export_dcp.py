"""A checkpoint in torch.distributed.checkpoint's own files, for programs that read only those.

Their metadata is a pickle, which torch writes; nothing here reads one. Source: schemas/SPEC.md#checkpoint-exchange
"""

import warnings
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from shardrel.checkpoint.leaves import leaves
from shardrel.checkpoint.objects import ObjectReader
from shardrel.checkpoint.sharded_plan import TreeLoadPlanner
from shardrel.checkpoint.sharded_reader import CommittedReader
from shardrel.checkpoint.state_tree import unflatten
from shardrel.errors import ErrorCode, InvalidInputError, unwritable
from shardrel.records.checkpoint import CheckpointManifest


def export_dcp(objects: ObjectReader, manifest: CheckpointManifest, folder: Path) -> Path:
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
    for leaf in leaves(manifest.state):
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
            save(state, storage_writer=FileSystemWriter(folder), no_dist=True)
    except OSError as err:
        raise unwritable(folder, err) from err
    return folder

"""A checkpoint as one safetensors file; no torch is needed, and memory is that of one object.

Source: schemas/SPEC.md#checkpoint-exchange
"""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from shardrel.canonical import json
from shardrel.checkpoint.dtypes import ITEM_BYTES
from shardrel.checkpoint.leaves import leaves
from shardrel.checkpoint.objects import ObjectReader
from shardrel.checkpoint.preflight import region_of
from shardrel.checkpoint.safetensors_file import Slot, header, lay_out
from shardrel.errors import ErrorCode, FormatError, InvalidInputError, unwritable
from shardrel.records.checkpoint import CheckpointManifest, Region
from shardrel.records.descriptor import Descriptor

FILE = "model.safetensors"
STATE = "shardrel.state"
"""Metadata: canonical JSON of the trees, in which tensors stand by their names in the manifest."""
NAMES = "shardrel.names"
"""Metadata: canonical JSON of those names by the names in the file."""


def export_safetensors(objects: ObjectReader, manifest: CheckpointManifest, folder: Path) -> Path:
    """Write all tensors by their dotted names, and everything else as metadata.

    Args:
        objects: Where the checkpoint's objects are.
        manifest: The checkpoint, judged.
        folder: Made where absent; it has no such file yet.

    Raises:
        InvalidInputError: ``input.invalid``: the file is there, or can't be written; ``checkpoint.unsupported-state``:
            an element type that the format lacks.
        NotFoundError, IntegrityError: An object is absent or has other bytes.

    Effects: the file, which has its name once it is whole and durable.
    """
    named = {leaf.dotted: leaf.tensor for leaf in leaves(manifest.state) if leaf.tensor is not None}
    entries = {entry.name: entry for entry in manifest.tensors}
    slots = lay_out([(name, entries[tensor].dtype, entries[tensor].shape) for name, tensor in named.items()])
    meta = {
        "format": "pt",
        STATE: json.encode(manifest.state).decode(),
        NAMES: json.encode(named).decode(),
    }
    head = header(slots, meta)
    target, draft = folder / FILE, folder / f".{FILE}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if target.exists():
            raise InvalidInputError(ErrorCode.INPUT_INVALID, f"{target} is there already", path=str(target))
        with open(draft, "wb") as file:
            file.write(head)
            file.truncate(len(head) + sum(slot.length for slot in slots))
        _fill(draft, len(head), objects, {slot: entries[named[slot.name]].regions for slot in slots})
        os.rename(draft, target)
        _flush(folder)
    except OSError as err:
        raise unwritable(target, err) from err
    return target


def _fill(path: Path, begin: int, objects: ObjectReader, regions: Mapping[Slot, tuple[Region, ...]]) -> None:
    by_object: dict[Descriptor, list[tuple[Slot, Region]]] = {}
    for slot, parts in regions.items():
        for region in parts:
            by_object.setdefault(region.object, []).append((slot, region))
    for descriptor, wanted in by_object.items():
        data = objects.read(descriptor)
        for slot, region in wanted:
            item = ITEM_BYTES[slot.dtype]
            place = np.memmap(path, np.uint8, "r+", begin + slot.start, (*slot.shape, item))
            box = tuple(slice(o, o + n) for o, n in zip(region.offsets, region.sizes, strict=True))
            place[box] = np.frombuffer(region_of(data, region), np.uint8).reshape(*region.sizes, item)
            place.flush()
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _flush(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def read_names(meta: Mapping[str, str]) -> tuple[dict[str, object], dict[str, str]] | None:
    """Trees and names of a file that was exported; null of any other.

    Raises:
        FormatError: ``checkpoint.unsupported-schema``.
    """
    if STATE not in meta or NAMES not in meta:
        return None
    try:
        return json.decode(meta[STATE].encode(), dict[str, object]), json.decode(meta[NAMES].encode(), dict[str, str])
    except FormatError as err:
        raise FormatError(ErrorCode.CHECKPOINT_SCHEMA, "the file's state is not one of this version") from err

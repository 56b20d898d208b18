"""A safetensors file becomes a checkpoint of a run. Source: schemas/SPEC.md#checkpoint-exchange."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shardrel.checkpoint.attempts import Attempt, begin, commit, manifest_of
from shardrel.checkpoint.coverage import Box
from shardrel.checkpoint.dtypes import ITEM_BYTES
from shardrel.checkpoint.export import read_names
from shardrel.checkpoint.leaves import tensor_name
from shardrel.checkpoint.safetensors_file import MAX_HEADER, Slot, parse
from shardrel.checkpoint.save import Saved
from shardrel.checkpoint.writing import Kept, Piece, Stamp, write_pieces
from shardrel.errors import ConflictError, ErrorCode, InvalidInputError
from shardrel.records.checkpoint import Cut, Region, TensorEntry
from shardrel.store.port import Store
from shardrel.trust.signer import Signer


def import_safetensors(store: Store, path: Path, *, dataset: str, run: str, cut: Cut, signer: Signer) -> Saved:
    """Commit the tensors of a file as the first checkpoint of a run, with no sample order.

    A file that was exported brings its whole state; the tensors of any other become ``model``.

    Args:
        store: The run's.
        path: The file.
        dataset: The gate of the run.
        run: The run.
        cut: The moment that the state is of; the run's beginning.
        signer: A key of the runner's role.

    Raises:
        InvalidInputError: ``input.corrupt``: not a safetensors file, or not all of one.
        ConflictError: ``gate.checkpoint-order``: the run has a checkpoint.
        RefusedError: What ``save`` refuses.

    Effects: objects, then manifest, then commit record, then the gate's head.
    """
    slots, meta, start = _opened(path)
    known = read_names(meta)
    names = {slot.name: tensor_name(("model", slot.name)) for slot in slots} if known is None else known[1]
    if set(names) != {slot.name for slot in slots}:
        raise InvalidInputError(ErrorCode.INPUT_CORRUPT, "the file's tensors are not those that its state names")
    attempt = begin(store, dataset, run, signer)
    if attempt.generation > 0:
        raise ConflictError(ErrorCode.GATE_CHECKPOINT_ORDER, "a run that has checkpoints goes on from them", run=run)
    entries = _entries(store, path, start, slots, names, Stamp(rank=0, attempt=attempt.attempt, step=cut.step))
    trees: dict[str, Any] = _flat(names) if known is None else dict(known[0])
    return _committed(store, dataset, attempt, cut, entries, trees, signer)


def _opened(path: Path) -> tuple[list[Slot], dict[str, str], int]:
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(MAX_HEADER, size - 8):
                raise InvalidInputError(ErrorCode.INPUT_CORRUPT, "the file is not a safetensors file", path=str(path))
            slots, meta = parse(file.read(length), size - 8 - length)
    except OSError as err:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"{path} can't be read", path=str(path)) from err
    return slots, meta, 8 + length


def _entries(
    store: Store, path: Path, start: int, slots: list[Slot], names: dict[str, str], stamp: Stamp
) -> list[TensorEntry]:
    filled = [slot for slot in slots if slot.length]
    regions: dict[str, list[Region]] = {slot.name: [] for slot in slots}
    for one in write_pieces(store, [_piece(path, start, slot) for slot in filled], stamp, Kept()):
        regions[filled[one.piece].name].append(one.region)
    made = [
        TensorEntry(name=names[slot.name], shape=slot.shape, dtype=slot.dtype, regions=tuple(regions[slot.name]))
        for slot in slots
    ]
    return sorted(made, key=lambda entry: entry.name)


def _piece(path: Path, start: int, slot: Slot) -> Piece:
    item = ITEM_BYTES[slot.dtype]
    mapped = np.memmap(path, np.uint8, "r", start + slot.start, (*slot.shape, item))

    def elements(box: Box) -> npt.NDArray[np.uint8]:
        part = mapped[tuple(slice(o, o + n) for o, n in zip(box.offsets, box.sizes, strict=True))]
        return np.ascontiguousarray(part).reshape(-1)

    return Piece(box=Box((0,) * len(slot.shape), slot.shape), item_bytes=item, elements=elements, replicas=(0,))


def _flat(names: dict[str, str]) -> dict[str, Any]:
    pairs = [[name, {"$": "tensor", "v": names[name]}] for name in sorted(names)]
    return {"model": {"$": "dict", "v": pairs}}


def _committed(
    store: Store,
    dataset: str,
    attempt: Attempt,
    cut: Cut,
    entries: list[TensorEntry],
    trees: dict[str, Any],
    signer: Signer,
) -> Saved:
    manifest = manifest_of(attempt, cut, None, entries, trees, 1)
    done = commit(store, dataset, manifest, attempt, signer)
    return Saved(generation=done.generation, commit=done.commit, step=cut.step)

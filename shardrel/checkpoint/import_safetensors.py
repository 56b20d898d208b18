"""Safetensors files become a checkpoint of a run: one, or a folder of them. Source: schemas/SPEC.md#checkpoint-exchange."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shardrel.checkpoint.coverage import Box
from shardrel.checkpoint.dtypes import ITEM_BYTES
from shardrel.checkpoint.export import read_names
from shardrel.checkpoint.file_slice import FileSlice
from shardrel.checkpoint.imported import Found, Target, Wanted, commit_found
from shardrel.checkpoint.leaves import tensor_name
from shardrel.checkpoint.safetensors_file import MAX_HEADER, SUFFIX, Slot, parse
from shardrel.checkpoint.safetensors_folder import named_by_index, offsets_of
from shardrel.checkpoint.save import Saved
from shardrel.checkpoint.writing import Piece
from shardrel.errors import ErrorCode, InvalidInputError

MODEL = "model"
"""What tensors are put under that somebody else wrote, where no other name is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A stored box of a tensor: a slot of a file."""

    file: Path
    begin: int
    slot: Slot
    offsets: tuple[int, ...]


def import_safetensors(target: Target, path: Path, wanted: Wanted) -> Saved:
    """Commit the tensors of a file as the first checkpoint of a run, with no sample order.

    A file that was exported brings its whole state; the tensors of any other become ``model``.

    Raises:
        InvalidInputError: ``input.corrupt``: not a safetensors file, or not all of one; ``input.invalid``: an exported
            state, and only a part of it is wanted, or another name.
        ConflictError, RefusedError: What ``commit_found`` raises.

    Effects: objects, then manifest, then commit record, then the gate's head.
    """
    slots, meta, begin = _opened(path)
    parts = [_Part(file=path, begin=begin, slot=slot, offsets=(0,) * len(slot.shape)) for slot in slots]
    known = read_names(meta)
    if known is None:
        return _commit_parts(target, parts, wanted)
    if wanted != Wanted():
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID, "a state that was exported is imported as it is", path=str(path)
        )
    trees, names = known
    if set(names) != {slot.name for slot in slots}:
        raise InvalidInputError(ErrorCode.INPUT_CORRUPT, "the file's tensors are not those that its state names")
    return commit_found(target, [_found(names[part.slot.name], [part]) for part in parts], dict(trees))


def import_safetensors_folder(target: Target, folder: Path, wanted: Wanted) -> Saved:
    """Commit the tensors of all safetensors files of a folder: whole ones, or pieces that say where they lie.

    Raises:
        InvalidInputError: ``input.corrupt``; ``input.no-such-file``: an index names a file that is absent.
        ConflictError, RefusedError: What ``commit_found`` raises; ``checkpoint.gap``, ``checkpoint.overlap``.

    Effects: objects, then manifest, then commit record, then the gate's head.
    """
    parts: list[_Part] = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        slots, meta, begin = _opened(path)
        offsets = offsets_of(meta, slots)
        parts += [_Part(file=path, begin=begin, slot=slot, offsets=offsets[slot.name]) for slot in slots]
    named_by_index(folder, {(part.slot.name, part.file.name) for part in parts})
    return _commit_parts(target, parts, wanted)


def _commit_parts(target: Target, parts: Iterable[_Part], wanted: Wanted) -> Saved:
    by_name: dict[str, list[_Part]] = {}
    for part in parts:
        if wanted.takes(part.slot.name):
            by_name.setdefault(part.slot.name, []).append(part)
    under = MODEL if wanted.under is None else wanted.under
    names = {name: tensor_name((under, name)) for name in by_name}
    pairs = [[name, {"$": "tensor", "v": names[name]}] for name in sorted(names)]
    found = [_found(names[name], of) for name, of in by_name.items()]
    return commit_found(target, found, {under: {"$": "dict", "v": pairs}})


def _opened(path: Path) -> tuple[list[Slot], Mapping[str, str], int]:
    file = FileSlice(path)
    length = int.from_bytes(file.read(0, 8), "little")
    if file.size < 8 or length > min(MAX_HEADER, file.size - 8):
        raise InvalidInputError(ErrorCode.INPUT_CORRUPT, f"{path} is not a safetensors file", path=str(path))
    slots, meta = parse(file.read(8, length), file.size - 8 - length)
    return slots, meta, 8 + length


def _found(name: str, parts: list[_Part]) -> Found:
    """A tensor of its parts; its shape is what they reach to."""
    first = parts[0].slot
    if any((part.slot.dtype, len(part.offsets)) != (first.dtype, len(first.shape)) for part in parts):
        raise InvalidInputError(ErrorCode.INPUT_CORRUPT, "the parts of a tensor are of different kinds", path=name)
    ends = [[o + n for o, n in zip(part.offsets, part.slot.shape, strict=True)] for part in parts]
    shape = tuple(max(reached) for reached in zip(*ends, strict=True))
    return Found(name=name, shape=shape, dtype=first.dtype, pieces=[_piece(part) for part in parts if part.slot.length])


def _piece(part: _Part) -> Piece:
    item = ITEM_BYTES[part.slot.dtype]
    file = FileSlice(part.file, part.begin + part.slot.start, part.slot.length)

    def elements(box: Box) -> npt.NDArray[np.uint8]:
        whole = file.mapped(0, part.slot.length).reshape(*part.slot.shape, item)
        ranges = zip(box.offsets, part.offsets, box.sizes, strict=True)
        # A copy: what is hashed is what is written, whatever happens to the file.
        return np.array(whole[tuple(slice(o - f, o - f + n) for o, f, n in ranges)], copy=True, order="C").reshape(-1)

    return Piece(box=Box(part.offsets, part.slot.shape), item_bytes=item, elements=elements, replicas=(0,))

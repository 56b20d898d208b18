"""A folder of torch.distributed.checkpoint becomes a checkpoint of a run; nothing is unpickled.

Source: schemas/SPEC.md#checkpoint-exchange
"""

from collections.abc import Iterable
from dataclasses import replace
from math import prod
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import numpy.typing as npt

from shardrel.canonical.json import MAX_RECORD_BYTES
from shardrel.checkpoint.coverage import Box
from shardrel.checkpoint.dcp_metadata import Chunk, Described, Place, Tensor, read_metadata
from shardrel.checkpoint.dtypes import ITEM_BYTES
from shardrel.checkpoint.file_slice import FileSlice
from shardrel.checkpoint.imported import Found, Target, Wanted, commit_found
from shardrel.checkpoint.leaves import Path, grow, tensor_name
from shardrel.checkpoint.parameter_numbers import with_numbers
from shardrel.checkpoint.save import Saved
from shardrel.checkpoint.state_tree import flatten
from shardrel.checkpoint.torch_file import Budget, StoredTensor, read_tensor, read_value
from shardrel.checkpoint.writing import Piece
from shardrel.errors import ErrorCode, InvalidInputError

METADATA = ".metadata"
_AT_MOST_NAMED = 10


def import_dcp(target: Target, folder: FilePath, wanted: Wanted) -> Saved:
    """Commit what ``dcp.save`` wrote: tensors and plain values. Any other value is refused by its name.

    Raises:
        InvalidInputError: ``input.no-such-file``; ``input.corrupt``: not whole; ``input.pickle-not-data``: it, or a
            value in it, asks for something else than data; ``checkpoint.unsupported-state``.
        ConflictError, RefusedError: What ``commit_found`` raises.

    Effects: objects, then manifest, then commit record, then the gate's head.
    """
    described = _chosen(read_metadata(_metadata(folder)), wanted)
    found = {
        name: _found(folder, name, tensor_name(path), described.tensors[name])
        for name, path in described.paths.items()
        if name in described.tensors
    }
    trees = _trees(folder, described)
    leaves = {
        path: trees[name] if name in trees else {"$": "tensor", "v": tensor_name(path)}
        for name, path in described.paths.items()
    }
    return commit_found(target, list(found.values()), with_numbers(grow(leaves)))


def _metadata(folder: FilePath) -> bytes:
    there = FileSlice(folder / METADATA)
    if there.size > MAX_RECORD_BYTES:
        raise InvalidInputError(
            ErrorCode.INPUT_CORRUPT, "the metadata describes more than a checkpoint can hold", size=there.size
        )
    return there.read(0, there.size)


def _chosen(described: Described, wanted: Wanted) -> Described:
    before: Path = () if wanted.under is None else (wanted.under,)
    paths = {name: (*before, *path) for name, path in described.paths.items() if wanted.takes(name)}
    return replace(described, paths=paths)


def _trees(folder: FilePath, described: Described) -> dict[str, Any]:
    """Typed trees of all values by name; or one refusal that names all of them that are none."""
    trees: dict[str, Any] = {}
    refused: dict[str, InvalidInputError] = {}
    budget = Budget()
    for name in described.paths:
        if name in described.values:
            try:
                trees[name] = _tree(folder, name, described.values[name], budget)
            except InvalidInputError as err:
                if err.code not in (ErrorCode.INPUT_PICKLE, ErrorCode.CHECKPOINT_STATE_TYPE):
                    raise
                refused[name] = err
    if refused:
        raise _refusal(list(refused), refused.values())
    return trees


def _refusal(names: list[str], errors: Iterable[InvalidInputError]) -> InvalidInputError:
    first = next(iter(errors))
    some = names[:_AT_MOST_NAMED]
    return InvalidInputError(
        first.code,
        f"{len(names)} of its values are no numbers, strings, bytes, lists or dicts of them ({', '.join(some)}): "
        f"{first.message}",
        paths=some,
    )


def _tree(folder: FilePath, name: str, place: Place, budget: Budget) -> Any:
    data = FileSlice(folder / place.file, place.start, place.length)
    trees, _ = flatten({name: read_value(data.read, data.size, budget)}, lambda _: False)
    return trees[name]


def _found(folder: FilePath, name: str, ours: str, tensor: Tensor) -> Found:
    pieces = [_piece(folder, name, tensor, chunk) for chunk in tensor.chunks]
    return Found(name=ours, shape=tensor.shape, dtype=tensor.dtype, pieces=pieces)


def _piece(folder: FilePath, name: str, tensor: Tensor, chunk: Chunk) -> Piece:
    data = FileSlice(folder / chunk.place.file, chunk.place.start, chunk.place.length)
    stored = read_tensor(data.read, data.size)
    if (stored.shape, stored.dtype) != (chunk.box.sizes, tensor.dtype):
        raise InvalidInputError(
            ErrorCode.INPUT_CORRUPT, "a stored tensor is not the one that the metadata describes", path=name
        )

    def elements(box: Box) -> npt.NDArray[np.uint8]:
        at = tuple(o - first for o, first in zip(box.offsets, chunk.box.offsets, strict=True))
        return _elements(data, stored, Box(at, box.sizes))

    return Piece(box=chunk.box, item_bytes=ITEM_BYTES[tensor.dtype], elements=elements, replicas=(0,))


def _elements(data: FileSlice, stored: StoredTensor, box: Box) -> npt.NDArray[np.uint8]:
    """Elements of a box of a stored tensor, in row-major order and with their own signs; a copy."""
    item = ITEM_BYTES[stored.dtype]
    first = stored.offset + sum(o * step for o, step in zip(box.offsets, stored.strides, strict=True))
    behind = 1 + sum((n - 1) * step for n, step in zip(box.sizes, stored.strides, strict=True))
    raw = data.mapped(stored.start + first * item, behind * item).view(f"V{item}")
    # A step that is never taken may be any number.
    steps = [step * item if n > 1 else 0 for n, step in zip(box.sizes, stored.strides, strict=True)]
    part = np.lib.stride_tricks.as_strided(raw, box.sizes, steps, writeable=False)
    made = np.array(part, copy=True, order="C").reshape(-1).view(np.uint8).reshape(prod(box.sizes), item)
    signs = [] if stored.conjugate == stored.negative else [item - 1]
    if stored.negative and stored.dtype.startswith("complex"):
        signs.append(item // 2 - 1)
    made[:, signs] ^= 0x80  # little-endian: the sign is in the last byte of each part
    return made.reshape(-1)

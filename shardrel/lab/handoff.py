"""What a worker hands to an isolated publisher: its state and its cut, in files. Source: schemas/SPEC.md#crash-lab."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from shardrel.canonical import json
from shardrel.checkpoint.state_tree import unflatten
from shardrel.checkpoint.tensors import octets, take_apart
from shardrel.records.checkpoint import Cut
from shardrel.records.fields import Count, Record


class _Tensor(Record, frozen=True, kw_only=True):
    name: str
    shape: tuple[Count, ...]
    dtype: str


class _Head(Record, frozen=True, kw_only=True):
    cut: Cut
    trees: dict[str, Any]
    tensors: tuple[_Tensor, ...]


def write(folder: Path, rank: int, state: Mapping[str, Any], cut: Cut) -> None:
    """Leave the state of a rank.

    Effects: two files in the folder, which is made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    captured = take_apart(state)
    tensors = tuple(_Tensor(name=spec.name, shape=spec.shape, dtype=spec.dtype) for spec in captured.specs)
    (folder / f"{rank}.bin").write_bytes(b"".join(octets(tensor).tobytes() for tensor in captured.tensors))
    (folder / f"{rank}.json").write_bytes(json.encode(_Head(cut=cut, trees=dict(captured.trees), tensors=tensors)))


def read(folder: Path, world_size: int) -> list[tuple[dict[str, Any], Cut]]:
    """The states of all ranks."""
    return [_read(folder, rank) for rank in range(world_size)]


def _read(folder: Path, rank: int) -> tuple[dict[str, Any], Cut]:
    head = json.decode((folder / f"{rank}.json").read_bytes(), _Head)
    data = bytearray((folder / f"{rank}.bin").read_bytes())
    tensors, start = {}, 0
    for one in head.tensors:
        dtype: torch.dtype = getattr(torch, one.dtype)
        length = dtype.itemsize
        for extent in one.shape:
            length *= extent
        flat = torch.frombuffer(data[start : start + length], dtype=dtype) if length else torch.empty(0, dtype=dtype)
        tensors[one.name] = flat.reshape(one.shape)
        start += length
    return unflatten(head.trees, tensors), head.cut

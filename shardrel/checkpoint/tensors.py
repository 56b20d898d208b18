"""Tensors as bytes and back; nothing is pickled. Source: schemas/SPEC.md#checkpoints."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import xxhash

from shardrel.canonical import json
from shardrel.checkpoint.coverage import Box
from shardrel.checkpoint.dtypes import ITEM_BYTES
from shardrel.checkpoint.leaves import tensor_name, walked
from shardrel.checkpoint.ownership import TensorSpec
from shardrel.checkpoint.replicas import NO_OWNERS, Owners, owner_of, with_parts
from shardrel.checkpoint.state_tree import flatten
from shardrel.digest import Digest, digest_of
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.checkpoint import MAX_DIMENSIONS, Region, TensorEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedState:
    """A state taken apart.

    Attributes:
        trees: Typed trees by name.
        specs: The tensors in order of their names; ``tensors`` holds them in the same order, not copied.
    """

    trees: Mapping[str, Any]
    specs: tuple[TensorSpec, ...]
    tensors: tuple[torch.Tensor, ...]


def take_apart(state: Mapping[str, Any]) -> CapturedState:
    """Trees and tensors of a nested state.

    Raises:
        InvalidInputError: ``checkpoint.unsupported-state``.
    """
    trees, found = flatten(state, lambda value: isinstance(value, torch.Tensor))
    names = sorted(found)
    return CapturedState(
        trees=trees,
        specs=tuple(_spec(name, found[name]) for name in names),
        tensors=tuple(found[name].detach() for name in names),
    )


def elements_of(tensor: torch.Tensor, origin: tuple[int, ...]) -> Callable[[Box], npt.NDArray[np.uint8]]:
    """Bytes of boxes of a tensor that lies at ``origin`` of the global one: row-major, little-endian, unpadded."""

    def elements(box: Box) -> npt.NDArray[np.uint8]:
        ranges = zip(origin, box.offsets, box.sizes, strict=True)
        return octets(tensor[tuple(slice(o - first, o - first + size) for first, o, size in ranges)])

    return elements


def replica_digest(captured: CapturedState, owners: Owners = NO_OWNERS) -> Digest:
    """Digest of everything that all ranks hold alike: trees, names, shapes, types and a checksum of every element.

    Ranks drift apart by accident; a checksum at the memory's speed finds that, and what is stored is hashed. Of what has
    a declared owner only names, shapes and types of tensors are the same.
    """
    trees = with_parts(captured.trees, dict.fromkeys(owners))
    sums = [checksum(tensor) for _, tensor in _alike(captured, owners)]
    described = [[spec.name, list(spec.shape), spec.dtype] for spec in captured.specs]
    return digest_of(json.encode([trees, described, sums]))


def replica_sums(captured: CapturedState, owners: Owners = NO_OWNERS) -> dict[str, str]:
    """Checksums of what all ranks hold alike, piece by piece: to name what is not alike."""
    trees = with_parts(captured.trees, dict.fromkeys(owners))
    values = {tensor_name(leaf.path): digest_of(json.encode([leaf.tree])) for leaf in walked(trees)}
    tensors = {
        spec.name: f"{list(spec.shape)} {spec.dtype} {checksum(tensor)}" for spec, tensor in _alike(captured, owners)
    }
    return {**values, **tensors}


def _alike(captured: CapturedState, owners: Owners) -> list[tuple[TensorSpec, torch.Tensor]]:
    pairs = zip(captured.specs, captured.tensors, strict=True)
    return [(spec, tensor) for spec, tensor in pairs if owner_of(spec.name, owners) is None]


def checksum(tensor: torch.Tensor) -> str:
    """XXH3-128 of a tensor's elements."""
    return xxhash.xxh3_128_hexdigest(octets(tensor).data)


def assemble(entry: TensorEntry, read: Callable[[Region], bytes | memoryview]) -> torch.Tensor:
    """One tensor of its regions; the caller has checked that they tile it."""
    dtype: torch.dtype = getattr(torch, entry.dtype)
    out = torch.empty(entry.shape, dtype=dtype)
    for region in entry.regions:
        part = torch.frombuffer(bytearray(read(region)), dtype=torch.uint8).view(dtype).reshape(region.sizes)
        out[tuple(slice(o, o + s) for o, s in zip(region.offsets, region.sizes, strict=True))] = part
    return out


def octets(tensor: torch.Tensor) -> npt.NDArray[np.uint8]:
    """Bytes of a tensor; not copied where it is plain, contiguous and on the CPU."""
    flat = tensor.cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    elements: npt.NDArray[np.uint8] = flat.view(torch.uint8).numpy()
    return elements


def _spec(name: str, tensor: torch.Tensor) -> TensorSpec:
    dtype = str(tensor.dtype).removeprefix("torch.")
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    known = dtype in ITEM_BYTES and tensor.ndim <= MAX_DIMENSIONS
    if not plain or not known or tensor.layout != torch.strided or tensor.is_meta:
        raise InvalidInputError(
            ErrorCode.CHECKPOINT_STATE_TYPE, "a checkpoint can't hold a tensor of this kind", path=name, dtype=dtype
        )
    return TensorSpec(name=name, shape=tuple(tensor.shape), dtype=dtype, item_bytes=ITEM_BYTES[dtype])

"""The safetensors format, header only: eight bytes of length, JSON, then the tensors' bytes one after the other.

Source: schemas/SPEC.md#checkpoint-exchange
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from shardrel.checkpoint.dtypes import ITEM_BYTES
from shardrel.errors import ErrorCode, InvalidInputError

MAX_HEADER = 100_000_000
SUFFIX = ".safetensors"
_META = "__metadata__"

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "bool": "BOOL",
        "uint8": "U8",
        "int8": "I8",
        "uint16": "U16",
        "int16": "I16",
        "uint32": "U32",
        "int32": "I32",
        "uint64": "U64",
        "int64": "I64",
        "float8_e4m3fn": "F8_E4M3",
        "float8_e5m2": "F8_E5M2",
        "float16": "F16",
        "bfloat16": "BF16",
        "float32": "F32",
        "float64": "F64",
        "complex64": "C64",
    }
)
"""The format's names of our element types. It has none for the others."""

_OURS = {theirs: ours for ours, theirs in NAMES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One tensor of a file; ``start`` counts from the end of the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int

    @property
    def length(self) -> int:
        """Bytes of its elements."""
        return prod(self.shape) * ITEM_BYTES[self.dtype]


def lay_out(tensors: Sequence[tuple[str, str, tuple[int, ...]]]) -> list[Slot]:
    """Slots of tensors (name, element type, shape): widest elements first, so that all are aligned.

    Raises:
        InvalidInputError: ``checkpoint.unsupported-state``: the format has no such element type.
    """
    made, start = [], 0
    for name, dtype, shape in sorted(tensors, key=lambda tensor: (-ITEM_BYTES[tensor[1]], tensor[0])):
        if dtype not in NAMES:
            raise InvalidInputError(
                ErrorCode.CHECKPOINT_STATE_TYPE, "safetensors has no such element type", path=name, dtype=dtype
            )
        slot = Slot(name=name, dtype=dtype, shape=shape, start=start)
        start += slot.length
        made.append(slot)
    return made


def header(slots: Sequence[Slot], meta: Mapping[str, str]) -> bytes:
    """The bytes before the tensors', padded with spaces to a multiple of eight."""
    described: dict[str, Any] = {_META: dict(meta)} if meta else {}
    for slot in slots:
        offsets = [slot.start, slot.start + slot.length]
        described[slot.name] = {"dtype": NAMES[slot.dtype], "shape": list(slot.shape), "data_offsets": offsets}
    text = json.dumps(described, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def parse(text: bytes, data_size: int) -> tuple[list[Slot], dict[str, str]]:
    """Slots in order of their bytes, and the metadata.

    Args:
        text: The JSON of the header.
        data_size: Bytes behind the header; the tensors must tile them.

    Raises:
        InvalidInputError: ``input.corrupt``.
    """
    try:
        described = json.loads(text, object_pairs_hook=_once)
        meta = described.pop(_META, {})
        if not all(isinstance(value, str) for value in meta.values()):
            raise ValueError(_META)
        "".join([*described, *meta.values()]).encode()  # fails at lone surrogates
        slots = sorted(
            (_slot(name, one) for name, one in described.items()), key=lambda slot: (slot.start, slot.length)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise InvalidInputError(ErrorCode.INPUT_CORRUPT, "the header is not one of a safetensors file") from err
    end = 0
    for slot in slots:
        if slot.start != end:
            raise InvalidInputError(ErrorCode.INPUT_CORRUPT, "the tensors of a file have gaps or overlap")
        end += slot.length
    if end != data_size:
        raise InvalidInputError(ErrorCode.INPUT_CORRUPT, "the tensors of a file are not all of its bytes")
    return slots, meta


def _slot(name: str, described: dict[str, Any]) -> Slot:
    if set(described) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(name)
    start, end = described["data_offsets"]
    shape = tuple(described["shape"])
    if any(type(number) is not int or number < 0 for number in (start, end, *shape)):
        raise ValueError(name)
    slot = Slot(name=name, dtype=_OURS[described["dtype"]], shape=shape, start=start)
    if slot.start + slot.length != end:
        raise ValueError(name)
    return slot


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands twice")
    return made

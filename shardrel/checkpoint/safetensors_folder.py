"""What a folder of safetensors files says beside each one's header. Source: schemas/SPEC.md#checkpoint-exchange."""

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from shardrel.checkpoint.file_slice import FileSlice
from shardrel.checkpoint.safetensors_file import MAX_HEADER, Slot
from shardrel.errors import ErrorCode, FormatError, InvalidInputError
from shardrel.trust.strict import parse_object

INDEX = "model.safetensors.index.json"
SHARDING = "DCP_SHARDING_INFO"
"""Metadata that torch.distributed.checkpoint writes: JSON with the first element of each piece in its tensor."""


def offsets_of(meta: Mapping[str, str], slots: Sequence[Slot]) -> dict[str, tuple[int, ...]]:
    """First element of each slot in its tensor: zeros where the file says nothing.

    Raises:
        InvalidInputError: ``input.corrupt``.
    """
    if SHARDING not in meta:
        return {slot.name: (0,) * len(slot.shape) for slot in slots}
    said = _object(meta[SHARDING].encode())
    try:
        return {slot.name: _offsets(said[slot.name]["saved_offsets"], slot) for slot in slots}
    except (KeyError, TypeError) as err:
        raise _corrupt("a file does not say where its pieces lie") from err


def named_by_index(folder: Path, found: Set[tuple[str, str]]) -> None:
    """Hold what was found, names of tensors with their files, against the folder's index, where it has one.

    Raises:
        InvalidInputError: ``input.no-such-file``: the index has more; ``input.corrupt``: it has less.
    """
    if not (folder / INDEX).exists():
        return
    index = FileSlice(folder / INDEX)
    said = _object(index.read(0, min(index.size, MAX_HEADER))).get("weight_map")
    if not isinstance(said, dict) or not all(isinstance(file, str) for file in said.values()):
        raise _corrupt("the index of a folder is not one of safetensors files")
    listed = set(said.items())
    for name, file in sorted(listed - found):
        raise InvalidInputError(
            ErrorCode.INPUT_NO_SUCH_FILE,
            "a tensor that the index names is not there",
            path=str(folder / file),
            name=name,
        )
    if listed != found:
        raise _corrupt("a folder has tensors that its index does not name")


def _offsets(value: Any, slot: Slot) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) != len(slot.shape):
        raise TypeError(slot.name)
    if any(type(number) is not int or not 0 <= number < 2**53 for number in value):
        raise TypeError(slot.name)
    return tuple(value)


def _object(text: bytes) -> dict[str, Any]:
    try:
        return parse_object(text, max_bytes=MAX_HEADER)
    except FormatError as err:
        raise _corrupt("a folder has JSON that can't be read") from err


def _corrupt(why: str) -> InvalidInputError:
    return InvalidInputError(ErrorCode.INPUT_CORRUPT, why)

"""What the ``.metadata`` of torch.distributed.checkpoint says, read as data. Source: schemas/SPEC.md#checkpoint-exchange."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from shardrel.checkpoint.coverage import Box
from shardrel.checkpoint.leaves import Path
from shardrel.checkpoint.pickle_data import Made, Name, Pairs, interpret, meaning
from shardrel.checkpoint.state_tree import MAX_DEPTH
from shardrel.checkpoint.torch_file import DTYPES
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.checkpoint import MAX_DIMENSIONS

_MODULE = "torch.distributed.checkpoint.metadata"
_METADATA = Name(_MODULE, "Metadata")
_TENSOR = Name(_MODULE, "TensorStorageMetadata")
_BYTES = Name(_MODULE, "BytesStorageMetadata")
_CHUNK = Name(_MODULE, "ChunkStorageMetadata")
_INDEX = Name(_MODULE, "MetadataIndex")
# Before torch 2.3 the properties were those of sharded tensors, of the same fields.
_OLDER = "torch.distributed._shard.sharded_tensor.metadata"
_PROPERTIES = frozenset({Name(_MODULE, "TensorProperties"), Name(_OLDER, "TensorProperties")})
_PLACE = Name("torch.distributed.checkpoint.filesystem", "_StorageInfo")
_SIZE = Name("torch", "Size")

# What says nothing that is needed: layout and memory format are of the tensors that were saved.
_PASSED_OVER = (
    Name(_MODULE, "_MEM_FORMAT_ENCODING"),
    Name(_OLDER, "MEM_FORMAT_ENCODING"),
    Name(_MODULE, "StorageMeta"),
    Name("torch.serialization", "_get_layout"),
    *(Name(module, f"{system}Path") for module in ("pathlib", "pathlib._local") for system in ("Posix", "Windows")),
)
NAMES = frozenset({_METADATA, _TENSOR, _BYTES, _CHUNK, _INDEX, *_PROPERTIES, _PLACE, _SIZE, *_PASSED_OVER, *DTYPES})
"""Everything that a ``.metadata`` may name; nothing of it is imported."""

_MAX_SIZE = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Bytes of a file of the folder."""

    file: str
    start: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A stored box of a tensor."""

    box: Box
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor, whose chunks should tile it."""

    shape: tuple[int, ...]
    dtype: str
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A checkpoint by DCP's names.

    Attributes:
        paths: Where each tensor and value stands in the state; all of them, in the state's order.
        values: Everything that is no tensor.
    """

    paths: Mapping[str, Path]
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    values: Mapping[str, Place] = field(default_factory=dict)


def read_metadata(data: bytes) -> Described:
    """A checkpoint's description.

    Raises:
        InvalidInputError: ``input.pickle-not-data``: it names something that is no part of one; ``input.corrupt``: not
            one of DCP's; ``checkpoint.unsupported-state``: compressed by an extension.
    """
    root = interpret(data, NAMES)
    try:
        said = _fields(root, _METADATA)
        stored = _places(said["storage_data"])
        return _described(_named(said["state_dict_metadata"]), stored, said.get("planner_data"))
    except InvalidInputError:
        raise
    except (KeyError, ValueError, TypeError, AttributeError) as err:
        raise InvalidInputError(ErrorCode.INPUT_CORRUPT, "the metadata is not of a checkpoint of torch") from err


_Stored = dict[tuple[str, tuple[int, ...] | None], Place]


def _described(entries: Mapping[str, Any], stored: _Stored, planned: Any) -> Described:
    tensors, values = {}, {}
    left = len(stored)
    for name, entry in entries.items():
        if entry.of == _BYTES:
            values[name] = stored[name, None]
            continue
        said = _fields(entry, _TENSOR)
        # Lists may be shared: what is read of them is bounded by what is stored, each piece once.
        left -= len(said["chunks"])
        if left < 0:
            raise ValueError("more chunks than are stored")
        tensors[name] = _tensor(name, said, stored)
    return Described(paths=_paths(entries, planned), tensors=tensors, values=values)


def _tensor(name: str, said: Mapping[str, Any], stored: _Stored) -> Tensor:
    dtype, *_ = _properties(said["properties"])
    shape = _size(said["size"])
    if prod(shape) > _MAX_SIZE:
        raise ValueError("shape")
    boxes = [_box(chunk) for chunk in said["chunks"]]
    chunks = tuple(Chunk(box=box, place=stored[name, box.offsets]) for box in boxes if 0 not in box.sizes)
    return Tensor(shape=shape, dtype=meaning(DTYPES, dtype), chunks=chunks)


def _properties(made: Made) -> tuple[Any, ...]:
    if made.of not in _PROPERTIES or not isinstance(made.state, tuple):
        raise ValueError("properties")
    return made.state


def _box(made: Made) -> Box:
    said = _fields(made, _CHUNK)
    box = Box(_size(said["offsets"]), _size(said["sizes"]))
    if len(box.offsets) != len(box.sizes):
        raise ValueError("chunk")
    return box


def _size(made: Made) -> tuple[int, ...]:
    if made.of != _SIZE:
        raise ValueError("size")
    [numbers] = made.arguments
    if (
        not isinstance(numbers, tuple)
        or len(numbers) > MAX_DIMENSIONS
        or any(type(n) is not int or not 0 <= n <= _MAX_SIZE for n in numbers)
    ):
        raise ValueError("size")
    return numbers


def _places(pairs: Any) -> _Stored:
    found: _Stored = {}
    for index, info in pairs.items:
        key = _fields(index, _INDEX)
        offset = key.get("offset")
        where = (_text(key["fqn"]), None if offset is None else _size(offset))
        if where in found:
            raise ValueError("index")
        found[where] = _place(_fields(info, _PLACE), where[0])
    _check_apart(found.values())
    return found


def _check_apart(places: Iterable[Place]) -> None:
    """No byte is in two places: a few bytes can't be many tensors, each to be written."""
    file, end = "", 0
    for place in sorted(places, key=lambda place: (place.file, place.start)):
        if place.file == file and place.start < end:
            raise ValueError("places overlap")
        file, end = place.file, place.start + place.length


def _place(said: Mapping[str, Any], name: str) -> Place:
    file, start, length = _text(said["relative_path"]), said["offset"], said["length"]
    if said.get("transform_descriptors") is not None:
        raise InvalidInputError(
            ErrorCode.CHECKPOINT_STATE_TYPE, "a checkpoint's files were written by an extension", path=name
        )
    if not file or file.startswith(".") or set(file) & {"/", "\\", "\0"}:
        raise ValueError("file")
    if any(type(n) is not int or not 0 <= n <= _MAX_SIZE for n in (start, length)):
        raise ValueError("place")
    return Place(file=file, start=start, length=length)


def _paths(entries: Mapping[str, Any], planned: Any) -> dict[str, Path]:
    """Paths by name, in the planner's order; a name that it says nothing of is its own path."""
    said = {name: _path(path) for name, path in _named(planned).items()} if isinstance(planned, Pairs) else {}
    known = {name: path for name, path in said.items() if name in entries}
    paths = {**known, **{name: (name,) for name in entries if name not in known}}
    if len(set(paths.values())) != len(paths):
        raise ValueError("paths")
    return paths


def _path(value: Any) -> Path:
    if not isinstance(value, tuple) or not 0 < len(value) <= MAX_DEPTH:
        raise ValueError("path")
    return tuple(part if type(part) is int and 0 <= part <= _MAX_SIZE else _text(part) for part in value)


def _named(pairs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs.items:
        if _text(name) in found:
            raise ValueError("name")
        found[name] = value
    return found


def _fields(made: Any, of: Name) -> dict[str, Any]:
    """Fields of a dataclass, as it is pickled."""
    if not isinstance(made, Made) or made.of != of or made.arguments or made.pairs.items:
        raise ValueError(str(of))
    return _named(made.state)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("text")
    value.encode("utf-8", "strict")
    return value

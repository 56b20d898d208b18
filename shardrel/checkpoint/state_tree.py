"""Non-tensor state as a closed typed tree; nothing is pickled. Source: schemas/SPEC.md#state-tree.

``flatten`` takes the tensors out of a nested state and leaves their names in the tree; ``unflatten``
puts them back. What a tensor is, the caller says: this module doesn't know torch.
"""

import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from shardrel.canonical.json import MAX_INTEGER
from shardrel.errors import ErrorCode, FormatError, InvalidInputError

MAX_DEPTH = 64
_MAX_DIGITS = 4300
"""Longer integers are spelled by no Python that has not been told to; the sign counts too."""

IsTensor = Callable[[Any], bool]


def flatten(state: Mapping[str, Any], is_tensor: IsTensor) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a state by name into trees and tensors.

    Args:
        state: Top-level names to nested None, bool, int, float, str, bytes, list, tuple, dict and tensors.
        is_tensor: Tells the tensors.

    Returns:
        Trees by top-level name (canonical JSON values), and tensors by path such as ``model/layer.weight``.

    Raises:
        InvalidInputError: ``checkpoint.unsupported-state``; the context names the path, not the value.
    """
    tensors: dict[str, Any] = {}
    trees = {name: _encode(value, _step("", name), tensors, is_tensor) for name, value in state.items()}
    return trees, tensors


def unflatten(trees: Mapping[str, Any], tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The nested state again.

    Raises:
        FormatError: ``checkpoint.unsupported-schema``: not a tree, or it names a tensor that isn't there.
    """
    return {name: _decode(tree, tensors, 0) for name, tree in trees.items()}


def tensor_names(trees: Mapping[str, Any]) -> list[str]:
    """Names of all tensors that trees refer to; with one name twice where a tree repeats it."""
    names = _Recorder()
    unflatten(trees, names)
    return names.seen


class _Recorder(dict[str, Any]):
    """Answers every name and remembers it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> None:
        self.seen.append(name)


def _step(path: str, key: Any) -> str:
    text = str(key).replace("~", "~0").replace("/", "~1")
    return f"{path}/{text}" if path else text


def _refuse(path: str, why: str) -> InvalidInputError:
    return InvalidInputError(ErrorCode.CHECKPOINT_STATE_TYPE, f"a checkpoint can't hold this state: {why}", path=path)


def _encode(value: Any, path: str, tensors: dict[str, Any], is_tensor: IsTensor) -> Any:
    if path.count("/") > MAX_DEPTH:
        raise _refuse(path[:200], "it is nested too deeply")
    if is_tensor(value):
        if path in tensors:
            raise _refuse(path, "two tensors have one path")
        tensors[path] = value
        return {"$": "tensor", "v": path}
    kind = type(value)
    if kind in (list, tuple):
        items = [_encode(item, _step(path, index), tensors, is_tensor) for index, item in enumerate(value)]
        return items if kind is list else {"$": "tuple", "v": items}
    if isinstance(value, dict):
        # Ordered dicts are what state_dict() gives; the order is kept, the class is not.
        return {"$": "dict", "v": [_pair(key, item, path, tensors, is_tensor) for key, item in value.items()]}
    return _encode_scalar(value, kind, path)


def _pair(key: Any, value: Any, path: str, tensors: dict[str, Any], is_tensor: IsTensor) -> list[Any]:
    if key is not None and type(key) not in (bool, int, str):
        raise _refuse(path, "a key is null, bool, int or string")
    return [_encode_scalar(key, type(key), path), _encode(value, _step(path, key), tensors, is_tensor)]


def _encode_scalar(value: Any, kind: type, path: str) -> Any:
    if value is None or kind is bool:
        return value
    if kind is str:
        return _text(value, path)
    if kind is int:
        return value if abs(value) <= MAX_INTEGER else {"$": "int", "v": _digits(value, path)}
    if kind is float:
        return {"$": "float", "v": struct.pack(">d", value).hex()}
    if kind is bytes:
        return {"$": "bytes", "v": value.hex()}
    raise _refuse(path, f"a value of type {kind.__name__}")


def _digits(value: int, path: str) -> str:
    with suppress(ValueError):
        text = str(value)
        if len(text) <= _MAX_DIGITS:
            return text
    raise _refuse(path, "an integer of too many digits")


def _text(value: str, path: str) -> str:
    try:
        value.encode("utf-8", "strict")
    except UnicodeEncodeError as err:
        raise _refuse(path, "a string with lone surrogates") from err
    return value


def _decode(tree: Any, tensors: Mapping[str, Any], depth: int) -> Any:
    if depth > 2 * MAX_DEPTH:
        raise FormatError(ErrorCode.CHECKPOINT_SCHEMA, "a state tree is nested too deeply")
    if isinstance(tree, list):
        return [_decode(item, tensors, depth + 1) for item in tree]
    if not isinstance(tree, dict):
        return tree
    try:
        return _decode_tagged(tree, tensors, depth)
    except (KeyError, ValueError, TypeError, struct.error) as err:
        raise FormatError(
            ErrorCode.CHECKPOINT_SCHEMA, "the state of a checkpoint is not a tree of known types"
        ) from err


def _decode_tagged(tree: dict[str, Any], tensors: Mapping[str, Any], depth: int) -> Any:
    if set(tree) != {"$", "v"}:
        raise KeyError("$")
    tag, value = tree["$"], tree["v"]
    match tag:
        case "int":
            return _big(value)
        case "float":
            return struct.unpack(">d", _hex(value))[0]
        case "bytes":
            return _hex(value)
        case "tuple":
            return tuple(_decode(item, tensors, depth + 1) for item in _list(value))
        case "dict":
            pairs = [(_decode(key, {}, depth + 1), _decode(item, tensors, depth + 1)) for key, item in _list(value)]
            return _distinct(pairs)
        case "tensor" if value in tensors:
            return tensors[value]
    raise ValueError("unknown tag or tensor")


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("list")
    return value


def _big(text: str) -> int:
    number = int(text)
    if str(number) != text or abs(number) <= MAX_INTEGER or len(text) > _MAX_DIGITS:
        raise ValueError("not the one spelling of a big integer")
    return number


def _hex(text: str) -> bytes:
    data = bytes.fromhex(text)
    if data.hex() != text:
        raise ValueError("not lower-case hex")
    return data


def _distinct(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice")
    return made

"""Leaves of a nested state by their paths, as torch.distributed.checkpoint flattens it. Source: schemas/SPEC.md#state-tree.

A checkpoint holds trees. DCP speaks of leaves that have a path and a dotted name. Both directions are here, on the
trees' own form, so that a checkpoint that was saved in either way can be loaded in either way.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from shardrel.checkpoint.state_tree import MAX_DEPTH
from shardrel.errors import ErrorCode, FormatError, InvalidInputError

Path = tuple[str | int, ...]
"""Keys of dicts as strings, positions in lists as integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """Attributes: ``tensor`` is the tensor's name where the leaf is one, else null; ``tree`` is what lies there."""

    path: Path
    tree: Any
    tensor: str | None

    @property
    def dotted(self) -> str:
        """The name that DCP gives it."""
        return dotted(self.path)


def dotted(path: Path) -> str:
    """DCP's name of a path."""
    return ".".join(map(str, path))


def tensor_name(path: Path) -> str:
    """Our name of a tensor at a path, as ``state_tree.flatten`` gives it."""
    return "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in path)


def leaves(trees: Mapping[str, Any]) -> list[Leaf]:
    """All leaves of a checkpoint's trees.

    Dicts are walked, and lists that hold a dict or a tensor at any depth; any other value is a leaf.

    Raises:
        FormatError: ``checkpoint.unsupported-schema``: not trees, or two leaves have one dotted name.
    """
    try:
        found = walked(trees)
    except (KeyError, TypeError, ValueError) as err:
        raise FormatError(ErrorCode.CHECKPOINT_SCHEMA, "the state is not a tree of known types") from err
    if len({leaf.dotted for leaf in found}) != len(found):
        raise FormatError(ErrorCode.CHECKPOINT_SCHEMA, "two leaves of the state have one dotted name")
    return found


def walked(trees: Mapping[str, Any]) -> list[Leaf]:
    """All leaves of trees of this process, whatever their dotted names."""
    return [leaf for name, tree in trees.items() for leaf in _walk((name,), tree, 0)]


def _walk(path: Path, tree: Any, depth: int) -> Iterator[Leaf]:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(tree, list):
        if _ends(tree):
            yield Leaf(path=path, tree=tree, tensor=None)
        else:
            for index, item in enumerate(tree):
                yield from _walk((*path, index), item, depth + 1)
    elif isinstance(tree, dict) and tree["$"] == "dict":
        for key, item in tree["v"]:
            yield from _walk((*path, _key(key)), item, depth + 1)
    else:
        is_tensor = isinstance(tree, dict) and tree["$"] == "tensor"
        yield Leaf(path=path, tree=tree, tensor=str(tree["v"]) if is_tensor else None)


def _ends(items: list[Any]) -> bool:
    """Whether a list is one leaf, by DCP's rule."""
    inner = [item for item in items if isinstance(item, list)]
    tagged = any(isinstance(item, dict) and item["$"] in ("dict", "tensor") for item in items)
    return not tagged and all(_ends(item) for item in inner)


def _key(key: Any) -> str:
    if isinstance(key, dict):
        return str(int(key["v"]))  # an integer beyond what JSON holds
    return str(key)


MAX_ABSENT = 65_536
"""Positions of lists of which no leaf tells; torch leaves out what is empty."""

_EMPTY = MappingProxyType({"$": "dict", "v": []})


@dataclass(slots=True)
class _Node:
    items: dict[str | int, Any] = field(default_factory=dict)


def grow(found: Mapping[Path, Any]) -> dict[str, Any]:
    """Trees of leaves.

    Args:
        found: What lies at each path: a tree, or a reference to a tensor.

    Raises:
        InvalidInputError: ``checkpoint.unsupported-state``: one path leads through another's leaf, or positions and
            keys stand side by side, or far more positions are absent than a list has empty items.
    """
    root = _Node()
    for path, tree in found.items():
        node = root
        for part in path[:-1]:
            node = _inner(node.items.setdefault(part, _Node()), path)
        if path[-1] in node.items:
            raise _refused(path)
        node.items[path[-1]] = tree
    if _absent(root) > MAX_ABSENT:
        raise _refused(next(iter(found)))
    return {str(name): _tree(node, (name,)) for name, node in root.items.items()}


def _absent(node: Any) -> int:
    """Positions before the last one at which nothing is."""
    if not isinstance(node, _Node):
        return 0
    places = [key for key in node.items if isinstance(key, int)]
    own = 1 + max(places) - len(places) if places else 0
    return own + sum(map(_absent, node.items.values()))


def _inner(node: Any, path: Path) -> _Node:
    if not isinstance(node, _Node):
        raise _refused(path)
    return node


def _tree(node: Any, path: Path) -> Any:
    if not isinstance(node, _Node):
        return node
    kinds = {type(key) for key in node.items}
    if kinds == {str}:
        return {"$": "dict", "v": [[key, _tree(item, (*path, key))] for key, item in node.items.items()]}
    if kinds != {int}:
        raise _refused(path)
    return _walked_list(node, path)


def _walked_list(node: _Node, path: Path) -> list[Any]:
    """A list that was walked. What is absent was empty; where nothing tells why it was walked, that was behind the rest."""
    size = 1 + max(int(index) for index in node.items)
    items = [_tree(node.items[i], (*path, i)) if i in node.items else dict(_EMPTY) for i in range(size)]
    return [*items, dict(_EMPTY)] if _ends(items) else items


def _refused(path: Path) -> InvalidInputError:
    return InvalidInputError(
        ErrorCode.CHECKPOINT_STATE_TYPE, "the leaves of a state don't make a tree", path=tensor_name(path)
    )

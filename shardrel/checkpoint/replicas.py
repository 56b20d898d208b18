"""What several ranks hold: who owns it, and by which rule their copies are one. Pure. Source: schemas/SPEC.md#checkpoint-copies.

By the rule ``equal`` all copies had the same checksum when they were saved. Below a path with a declared owner the rule
is ``owner``: that rank's copy is the checkpoint's, whatever the others hold.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from shardrel.checkpoint.leaves import tensor_name
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.checkpoint import CheckpointManifest, Region

Owners = Mapping[str, int]
"""Ranks by the paths that they own, such as ``model/norm.running_mean``, or ``random`` with all that lies below."""

NO_OWNERS: Owners = MappingProxyType({})


def check_owners(owners: Owners, world_size: int) -> None:
    """A declaration makes sense: ranks of the job, and no path below another.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    for path, rank in owners.items():
        others = {other: at for other, at in owners.items() if other != path}
        if not 0 <= rank < world_size or owner_of(path, others) is not None:
            raise InvalidInputError(
                ErrorCode.INPUT_INVALID, "an owner is a rank of the job, and of no path below another's", path=path
            )


def owner_of(path: str, owners: Owners) -> int | None:
    """The declared owner of what lies at a path; null: its copies are equal."""
    if not owners:
        return None
    parts = path.split("/")
    for length in range(1, len(parts) + 1):
        owner = owners.get("/".join(parts[:length]))
        if owner is not None:
            return owner
    return None


def owned_parts(trees: Mapping[str, Any], owners: Owners) -> dict[str, Any]:
    """The trees that lie at the declared paths.

    Raises:
        InvalidInputError: ``input.invalid``: nothing lies there.
    """
    found: dict[str, Any] = {}
    replace_parts(trees, owners, lambda path, tree: found.setdefault(path, tree))
    for path in owners:
        if path not in found:
            raise InvalidInputError(
                ErrorCode.INPUT_INVALID, "an owner is declared of what the state has not", path=path
            )
    return found


def with_parts(trees: Mapping[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """Trees with others at some paths."""
    return replace_parts(trees, parts, lambda path, _: parts[path])


def replace_parts(trees: Mapping[str, Any], paths: Iterable[str], change: Callable[[str, Any], Any]) -> dict[str, Any]:
    """Trees in which what lies at each of the paths is what ``change(path, tree)`` gives."""
    wanted = frozenset(paths)
    if not wanted:
        return dict(trees)
    return {name: _replaced(tensor_name((name,)), tree, wanted, change) for name, tree in trees.items()}


def _replaced(path: str, tree: Any, wanted: frozenset[str], change: Callable[[str, Any], Any]) -> Any:
    if path in wanted:
        return change(path, tree)
    if isinstance(tree, list):
        return [_replaced(f"{path}/{index}", item, wanted, change) for index, item in enumerate(tree)]
    if isinstance(tree, dict) and tree["$"] == "dict":
        items = [[key, _replaced(f"{path}/{_key(key)}", item, wanted, change)] for key, item in tree["v"]]
        return {"$": "dict", "v": items}
    if isinstance(tree, dict) and tree["$"] == "tuple":
        return {**tree, "v": [_replaced(f"{path}/{i}", item, wanted, change) for i, item in enumerate(tree["v"])]}
    return tree


def _key(key: Any) -> str:
    return tensor_name((str(int(key["v"]) if isinstance(key, dict) else key),))


def undeclared(manifest: CheckpointManifest) -> tuple[str, ...]:
    """Names of tensors, or paths of owners, whose copies are not as the manifest declares them."""
    owners = manifest.owners or NO_OWNERS
    wrong = [path for path, rank in owners.items() if rank >= manifest.world_size]
    for entry in manifest.tensors:
        owner = owner_of(entry.name, owners)
        if not all(_declared(region, owner, manifest.world_size) for region in entry.regions):
            wrong.append(entry.name)
    return tuple(wrong)


def _declared(region: Region, owner: int | None, world_size: int) -> bool:
    holders = region.replicas
    ascending = all(one < other for one, other in pairwise(holders))
    return ascending and region.rank in holders and holders[-1] < world_size and owner in (None, region.rank)

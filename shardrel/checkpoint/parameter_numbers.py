"""Numbers of parameters in an optimizer's state, which DCP spells as strings. Pure. Source: schemas/SPEC.md#checkpoint-sharded.

An optimizer takes a state whose keys are strings without a word, and has none then.
"""

from collections.abc import Mapping
from typing import Any


def with_numbers(trees: Mapping[str, Any]) -> dict[str, Any]:
    """Trees, as ``leaves.grow`` makes them, in which the keys of a ``state`` beside ``param_groups`` are numbers, where the groups name those as theirs."""
    return {name: _numbered(tree) for name, tree in trees.items()}


def _numbered(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_numbered(item) for item in tree]
    if not isinstance(tree, dict) or tree["$"] != "dict":
        return tree
    pairs = [[key, _numbered(item)] for key, item in tree["v"]]
    numbers = {str(number): number for number in _parameters(_item(pairs, "param_groups"))}
    state = _pairs(_item(pairs, "state"))
    if state and all(isinstance(key, str) and key in numbers for key, _ in state):
        numbered = {"$": "dict", "v": [[numbers[key], item] for key, item in state]}
        pairs = [[key, numbered if key == "state" else item] for key, item in pairs]
    return {"$": "dict", "v": pairs}


def _parameters(groups: Any) -> list[int]:
    """All parameters of an optimizer's groups; none where they are named otherwise."""
    listed = [_item(_pairs(group), "params") for group in groups] if isinstance(groups, list) else []
    flat = [number for numbers in listed if isinstance(numbers, list) for number in numbers]
    return flat if all(type(number) is int for number in flat) else []


def _item(pairs: list[list[Any]], name: str) -> Any:
    return next((item for key, item in pairs if key == name), None)


def _pairs(tree: Any) -> list[list[Any]]:
    return tree["v"] if isinstance(tree, dict) and tree["$"] == "dict" else []

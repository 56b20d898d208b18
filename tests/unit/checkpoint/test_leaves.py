"""Leaves are those of torch.distributed.checkpoint, and grow into the tree that they were of."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed.checkpoint._nested_dict import flatten_state_dict

from shardrel.checkpoint.leaves import grow, leaves, tensor_name
from shardrel.checkpoint.state_tree import flatten, unflatten
from shardrel.errors import ErrorCode, ShardrelError

NAMES = st.text(st.sampled_from("ab/~$1"), min_size=1, max_size=3)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 2**60), st.floats(allow_nan=False), st.text("xy", max_size=2)
)
VALUES = st.recursive(
    st.one_of(SCALARS, st.just(torch.ones(2))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3), st.lists(SCALARS, max_size=2).map(tuple)
    ),
    max_leaves=8,
)


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=3))
def test_leaves_are_those_of_dcp(state: dict[str, Any]) -> None:
    try:
        flat, paths = flatten_state_dict(state)
    except ValueError:  # two leaves with one name: DCP refuses it too
        return
    trees, tensors = flatten(state, is_tensor)
    found = leaves(trees)
    assert {leaf.dotted: leaf.path for leaf in found} == paths
    for leaf in found:
        if leaf.tensor is None:
            assert unflatten({"v": leaf.tree}, {})["v"] == flat[leaf.dotted]
        else:
            assert leaf.tensor == tensor_name(leaf.path)
            assert tensors[leaf.tensor] is flat[leaf.dotted]


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=3))
def test_a_tree_grown_of_its_leaves_has_the_same_leaves(state: dict[str, Any]) -> None:
    try:
        flatten_state_dict(state)
    except ValueError:
        return
    found = leaves(flatten(state, is_tensor)[0])
    by_path = {leaf.path: leaf.tree for leaf in found}
    if any(leaf.path[0] == "" for leaf in found) or len(by_path) != len(found):
        return
    grown = grow(by_path)
    assert {leaf.path: leaf.tree for leaf in leaves(grown)} == by_path


@pytest.mark.parametrize("paths", [[("a",), ("a", "b")], [("a", "b"), ("a",)], [("a", 0), ("a", "b")]], ids=str)
def test_leaves_that_make_no_tree_are_refused(paths: list[tuple[str | int, ...]]) -> None:
    with pytest.raises(ShardrelError) as raised:
        grow(dict.fromkeys(paths, 1))
    assert raised.value.code == ErrorCode.CHECKPOINT_STATE_TYPE


def test_what_dcp_leaves_out_of_a_list_was_empty() -> None:
    state = {"a": [{}, 1], "b": [1, {}], "c": [[{}], {}, {"d": 2}]}
    by_path = {leaf.path: leaf.tree for leaf in leaves(flatten(state, is_tensor)[0])}
    assert unflatten(grow(by_path), {}) == {"a": [{}, 1], "b": [1, {}], "c": [{}, {}, {"d": 2}]}


@pytest.mark.parametrize("tree", [{"v": 1}, {"$": "dict", "v": 3}, {"$": "dict", "v": [[1]]}, [{"a": 1}]], ids=str)
def test_what_is_no_tree_is_refused(tree: Any) -> None:
    with pytest.raises(ShardrelError) as raised:
        leaves({"state": tree})
    assert raised.value.code == ErrorCode.CHECKPOINT_SCHEMA

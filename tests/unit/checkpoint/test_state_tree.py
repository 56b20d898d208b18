"""State trees keep every bit and refuse everything else."""

import math
import struct
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.canonical import json
from shardrel.checkpoint.state_tree import flatten, tensor_names, unflatten
from shardrel.errors import ErrorCode, FormatError, InvalidInputError


class Tensor:
    """Stands for a tensor; the module doesn't look inside."""


def is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


keys = st.none() | st.booleans() | st.integers() | st.text()
leaves = keys | st.floats() | st.binary(max_size=8)
states = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(keys, inner, max_size=3)
        ),
        max_leaves=10,
    ),
    max_size=3,
)


def exact(value: Any) -> Any:
    """A form in which equality is equality of types and bits."""
    if isinstance(value, float):
        return ("float", struct.pack(">d", value))
    if isinstance(value, list | tuple):
        return (type(value).__name__, [exact(item) for item in value])
    if isinstance(value, dict):
        return ("dict", [(exact(key), exact(item)) for key, item in value.items()])
    return (type(value).__name__, value)


@settings(max_examples=150, deadline=None)
@given(state=states)
def test_a_state_comes_back_bit_for_bit_through_canonical_json(state: dict[str, Any]) -> None:
    trees, tensors = flatten(state, is_tensor)
    assert not tensors
    again = json.decode(json.encode(trees), dict)
    back = unflatten(again, {})
    assert {name: exact(value) for name, value in back.items()} == {name: exact(v) for name, v in state.items()}


def test_special_floats_keep_their_bits() -> None:
    nan = struct.unpack(">d", bytes.fromhex("7ff8000000000123"))[0]
    trees, _ = flatten({"a": [nan, -0.0, math.inf]}, is_tensor)
    back = unflatten(trees, {})["a"]
    assert [struct.pack(">d", x).hex() for x in back] == ["7ff8000000000123", "8000000000000000", "7ff0000000000000"]


def test_tensors_are_taken_out_by_path_and_put_back() -> None:
    first, second, third = Tensor(), Tensor(), Tensor()
    state = {"model": OrderedDict([("a/b", first)]), "optimizer": {"state": {0: {"exp_avg": second}}, "x": (third,)}}
    trees, tensors = flatten(state, is_tensor)
    assert tensors == {"model/a~1b": first, "optimizer/state/0/exp_avg": second, "optimizer/x/0": third}
    assert sorted(tensor_names(trees)) == sorted(tensors)
    assert unflatten(json.decode(json.encode(trees), dict), tensors) == state


def test_two_tensors_of_one_path_are_refused() -> None:
    with pytest.raises(InvalidInputError) as caught:
        flatten({"s": {0: Tensor(), "0": Tensor()}}, is_tensor)
    assert caught.value.code == ErrorCode.CHECKPOINT_STATE_TYPE


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, {(1,): 2}, {1.5: 2}, bytearray(b"x"), "\ud800", {"\ud800": 1}, len]
)
def test_other_state_is_refused_by_path_and_not_by_content(value: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        flatten({"state": {"here": value}}, is_tensor)
    assert caught.value.code == ErrorCode.CHECKPOINT_STATE_TYPE
    assert str(caught.value.context["path"]).startswith("state/here")


def test_state_that_is_its_own_part_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidInputError) as caught:
        flatten({"state": loop}, is_tensor)
    assert caught.value.code == ErrorCode.CHECKPOINT_STATE_TYPE


@pytest.mark.parametrize(
    "tree",
    [
        {"$": "pickle", "v": "00"},
        {"$": "tensor", "v": "absent"},
        {"$": "int", "v": "1"},
        {"$": "int", "v": "+9007199254740992"},
        {"$": "float", "v": "00"},
        {"$": "float", "v": "7FF0000000000000"},
        {"$": "bytes", "v": "0 0"},
        {"$": "dict", "v": [["a", 1], ["a", 2]]},
        {"$": "dict", "v": [["a"]]},
        {"$": "tuple", "v": "ab"},
        {"$": "tuple", "v": [], "w": 1},
        {"a": 1},
    ],
)
def test_a_tree_with_other_tags_or_spellings_is_refused(tree: Any) -> None:
    with pytest.raises(FormatError) as caught:
        unflatten({"state": tree}, {})
    assert caught.value.code == ErrorCode.CHECKPOINT_SCHEMA

"""The short way to validate strings says what Arrow's full validation says."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.canonical.validity import validate
from verifier.utf8 import valid_text

STRING = pa.string()


def strings(offsets: list[int], data: bytes, kind: Any = STRING, bits: bytes | None = None, nulls: int = 0) -> Any:
    """A string array of any buffers, which nothing has checked."""
    borders = np.array(offsets, np.int64 if pa.types.is_large_string(kind) else np.int32)
    buffers = [None if bits is None else pa.py_buffer(bits), pa.py_buffer(borders), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers, nulls)


def is_valid(array: Any) -> bool:
    try:
        validate(array)
    except pa.ArrowInvalid:
        return False
    return True


def is_fully_valid(array: Any) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize(
    ("offsets", "data", "valid"),
    [
        ([0, 1, 3], b"abc", True),
        ([0, 0, 0], b"", True),
        ([1, 1, 3], "aä".encode(), True),
        ([0, 1, 2], "ä".encode(), False),
        ([0, 1, 3], b"ab\xff", False),
        ([0, 3, 1], b"abc", False),
        ([0, 2, 1, 3], b"abc", False),
    ],
)
def test_offsets_and_text_are_looked_at(kind: Any, offsets: list[int], data: bytes, valid: bool) -> None:
    array = strings(offsets, data, kind)
    assert is_valid(array) == is_fully_valid(array) == valid
    if pa.types.is_string(kind):
        assert valid_text(array) == valid


def test_a_number_of_nulls_that_is_wrong_is_found() -> None:
    array = strings([0, 1, 2], b"ab", bits=b"\x01", nulls=2)
    assert not is_fully_valid(array)
    assert not is_valid(array)
    assert not valid_text(array)


def test_other_types_are_validated_fully() -> None:
    lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), strings([0, 1], b"\xff"))
    outside = pa.DictionaryArray.from_arrays(pa.array([3], pa.int8()), pa.array(["a"]), safe=False)
    assert not is_valid(lists)
    assert not is_valid(outside)
    assert is_valid(pa.array([1.5, None]))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.sampled_from([b"", b"plain", "ä".encode(), b"\xff", b"\xc3"]))),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_slices_are_judged_as_arrow_judges_them(values: list[bytes | None], first: int, count: int) -> None:
    array = pa.array(values, pa.binary()).view(pa.string()).slice(first, count)
    assert is_valid(array) == is_fully_valid(array) == valid_text(array)

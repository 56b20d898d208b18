"""Pickles are looked at and never run: what is no data is refused, and what is refused costs little."""

import io
import pickle
import struct
import tracemalloc
import zlib
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.checkpoint.pickle_data import Made, Name, Pairs, interpret
from shardrel.checkpoint.torch_file import Budget, read_value
from shardrel.errors import ErrorCode, InvalidInputError

CODES = {ErrorCode.INPUT_PICKLE, ErrorCode.INPUT_CORRUPT}


class Runs:
    """What a pickle of somebody hostile holds."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._call


def code(data: bytes) -> ErrorCode:
    with pytest.raises(InvalidInputError) as raised:
        interpret(data, ())
    return raised.value.code


def plain(value: Any) -> Any:
    """What was pickled, of what was read."""
    if isinstance(value, Pairs):
        return {plain(key): plain(item) for key, item in value.items}
    if isinstance(value, list | tuple):
        return type(value)(plain(item) for item in value)
    return value


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=5).map(tuple)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(value=values, protocol=st.integers(3, 5))
def test_plain_values_are_read_as_they_were_pickled(value: Any, protocol: int) -> None:
    assert plain(interpret(pickle.dumps(value, protocol), ())) == value


@pytest.mark.parametrize("protocol", range(6))
def test_what_would_be_called_is_refused_and_not_called(tmp_path: Path, protocol: int) -> None:
    touched = tmp_path / "touched"
    for hostile in (Runs(touched.touch), Runs(__import__, "this"), Runs(eval, "1"), {"deep": [Runs(print, 1)]}):
        assert code(pickle.dumps(hostile, protocol)) == ErrorCode.INPUT_PICKLE
    assert not touched.exists()


def test_a_name_on_the_list_is_data_too() -> None:
    system = Name("posix", "system")
    made = interpret(pickle.dumps(Runs(__import__("os").system, "true"), 4), {system})
    assert isinstance(made, Made)
    assert (made.of, made.arguments) == (system, ("true",))


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"",
        b".",
        b"N",
        b"NN.",
        b"N.N",
        b"(.",
        b"(N.",
        b"0.",
        b"\x80\x04h\x07.",
        b"\x80\x02}K\x01s.",
        b"\x80\x02]K\x01K\x02a.",
        b"\x80\x02NN\x86R.",
        b"\x80\x04\x8c\x01aK\x01\x93.",
        b"\x80\x02NNb.",
        b"\x80\x02)\x85\x85R.",
        b"\x80\x02X\xff\xff\xff\x7fab.",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fab.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xffab.",
        b"\x80\x02\x8b\xff\xff\xff\x7f\x01.",
        b"\x80\x04\x8c\x02\xff\xff.",
        b"(i__builtin__\neval\n.",
        b"\x82\x01.",
        b"c__builtin__\neval\n.",
        b"Pposix\n.",
        b"N2.",
    ],
)
def test_broken_and_foreign_pickles_are_refused(data: bytes) -> None:
    assert code(data) in CODES


@pytest.mark.parametrize(
    "data",
    [
        b"(" * 100_000,
        b"N" * 100_100 + b".",
        b"]" * 100_100,
        b"\x80\x04" + b"]\x94" * 100_000,
        b"\x80\x02]" + b"2a" * 50_000,
        b"N" + b"\x85" * 20_000,
        b"\x80\x02N" + b"".join(b"r" + n.to_bytes(4, "little") for n in range(50_000)),
    ],
    ids=["marks", "stack", "lists", "memo", "own part", "nested", "memo places"],
)
def test_what_is_refused_costs_no_more_than_its_own_size_allows(data: bytes) -> None:
    tracemalloc.start()
    assert code(data) in CODES
    assert tracemalloc.get_traced_memory()[1] < 100 * len(data) + 1_000_000
    tracemalloc.stop()


def test_deep_nesting_is_no_recursion() -> None:
    value = interpret(b"N" + b"\x85" * 20_000 + b".", ())
    assert isinstance(value, tuple)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(InvalidInputError):
        interpret(data, ())


def saved(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def read(data: bytes, budget: Budget | None = None) -> Any:
    return read_value(
        lambda start, length: data[start : start + length] if start >= 0 else b"", len(data), budget or Budget(100_000)
    )


@pytest.mark.parametrize(
    "value",
    [None, True, 7, -(2**80), 0.1, "ü", b"\0\xff", [1, [2]], (1, (2, "x")), {"a": {1: None}}, OrderedDict(a=1), []],
)
def test_values_that_torch_saves_come_back(value: Any) -> None:
    assert read(saved(value)) == value


@pytest.mark.parametrize(
    "value", [{1, 2}, torch.ones(2), torch.float32, torch.Size([1]), object, Path("x"), Runs(print, 1)]
)
def test_values_of_other_types_are_refused(value: Any) -> None:
    with pytest.raises(InvalidInputError) as raised:
        read(saved(value))
    assert raised.value.code == ErrorCode.INPUT_PICKLE


def test_one_list_very_often_is_not_walked() -> None:
    bomb: list[Any] = [0] * 10
    for _ in range(40):
        bomb = [bomb] * 10
    data = saved(bomb)
    assert len(data) < 10_000
    with pytest.raises(InvalidInputError) as raised:
        read(data)
    assert raised.value.code == ErrorCode.INPUT_PICKLE


def test_all_values_together_have_a_budget() -> None:
    data, budget = saved([0] * 40), Budget(100)
    assert [read(data, budget), read(data, budget)] == [[0] * 40] * 2
    with pytest.raises(InvalidInputError) as raised:
        read(data, budget)
    assert raised.value.code == ErrorCode.INPUT_PICKLE


@pytest.mark.parametrize("long", ["x" * 10_000, b"\xff" * 10_000, 2**80_000], ids=["string", "bytes", "number"])
def test_one_long_value_very_often_is_too_large(long: Any) -> None:
    """A manifest would hold it each time."""
    for value in ([long] * 20, [{1 if isinstance(long, bytes) else long: long}] * 20):
        data = saved(value)
        assert read(data, Budget(octets=500_000)) == value
        with pytest.raises(InvalidInputError) as raised:
            read(data, Budget(octets=150_000))
        assert raised.value.code == ErrorCode.INPUT_PICKLE


def test_every_truncation_of_an_archive_is_refused() -> None:
    whole = saved({"a": [1, 2.5, "x"]})
    for length in range(len(whole)):
        with pytest.raises(InvalidInputError) as raised:
            read(whole[:length])
        assert raised.value.code == ErrorCode.INPUT_CORRUPT


def test_every_changed_byte_of_the_pickle_is_found_by_its_sum() -> None:
    whole = bytearray(saved(12345))
    at = bytes(whole).index(b"\x80\x02M90.")
    for index in range(at, at + 6):
        whole[index] ^= 1
        with pytest.raises(InvalidInputError) as raised:
            read(bytes(whole))
        assert raised.value.code == ErrorCode.INPUT_CORRUPT
        whole[index] ^= 1


def test_an_archive_with_wide_fields_is_read() -> None:
    pickled = b"\x80\x02K\x07."
    name, crc = b"archive/data.pkl", zlib.crc32(pickled)
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 0, crc, len(pickled), len(pickled), len(name), 0)
    start = len(local) + len(name) + len(pickled)
    extra = struct.pack("<HHQQQ", 1, 24, len(pickled), len(pickled), 0)
    wide = (0xFFFFFFFF, 0xFFFFFFFF, len(name), len(extra), 0, 0, 0, 0, 0xFFFFFFFF)
    listed = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 0, crc, *wide) + name + extra
    end = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 1, 1, len(listed), start)
    locator = struct.pack("<IIQI", 0x07064B50, 0, start + len(listed), 1)
    last = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    assert read(local + name + pickled + listed + end + locator + last) == 7


def test_archives_whose_sums_were_left_out_are_read() -> None:
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        data = saved([1, 2])
    finally:
        torch.serialization.set_crc32_options(before)
    assert read(data) == [1, 2]

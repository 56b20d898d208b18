"""What the row encoder refuses, what it never looks at, and how it slices."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shardrel.errors import ErrorCode, InvalidInputError
from verifier import layout, rows
from verifier.schema import record_schema


def digests(table: Any) -> Any:
    """Content digests of a table."""
    return rows.content_digests(record_schema(table.schema), table)


def refusal(table: Any) -> tuple[ErrorCode, Any]:
    """Code and row of the refusal."""
    with pytest.raises(InvalidInputError) as caught:
        digests(table)
    return caught.value.code, caught.value.context.get("row")


def texts(values: list[bytes | None]) -> Any:
    """A string array of any bytes."""
    return pa.array(values, pa.binary()).view(pa.string())


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80"])
@pytest.mark.parametrize("row", [0, 7, 99])
def test_invalid_utf8_is_refused_with_its_row(bad: bytes, row: int) -> None:
    values: list[bytes | None] = [b"fine"] * 100
    values[row] = bad
    assert refusal(pa.table({"s": texts(values)})) == (ErrorCode.INPUT_UTF8, row)


def test_rows_are_counted_over_chunks() -> None:
    column = pa.chunked_array([texts([b"a"] * 5), texts([b"b", b"\xff"])])
    assert refusal(pa.table({"s": column})) == (ErrorCode.INPUT_UTF8, 6)


def test_a_character_cut_between_two_values_is_refused() -> None:
    assert refusal(pa.table({"s": texts([b"\xc3", b"\xa9"])}))[0] == ErrorCode.INPUT_UTF8


def test_invalid_bytes_under_a_null_are_not_looked_at() -> None:
    hidden = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x01"), *texts([b"a", b"\xff"]).buffers()[1:]])
    struct = pa.StructArray.from_arrays([texts([b"a", b"\xff"])], names=["x"], mask=pa.array([False, True]))
    offsets = pa.array([0, 1, 2], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, texts([b"a", b"\xff"]), mask=pa.array([False, True]))
    unused = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), texts([b"a", b"\xff"]))
    for column, plain in (
        (hidden, ["a", None]),
        (struct, [{"x": "a"}, None]),
        (lists, [["a"], None]),
        (unused, ["a", "a"]),
    ):
        table = pa.table({"c": column})
        assert (digests(table).digests == digests(pa.table({"c": pa.array(plain)})).digests).all()


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, None]),
        pa.array(["a", None]),
        pa.array([[1], None]),
        pa.array(["a", None]).dictionary_encode(),
    ],
)
def test_a_null_where_none_may_be(array: Any) -> None:
    table = pa.Table.from_arrays([array], schema=pa.schema([pa.field("c", array.type, nullable=False)]))
    assert refusal(table)[0] == ErrorCode.INPUT_NOT_NULL


def test_a_null_element_where_none_may_be() -> None:
    kind = pa.list_(pa.field("item", pa.int8(), nullable=False))
    assert refusal(pa.table({"c": pa.array([[1], [None]]).cast(pa.list_(pa.int8())).cast(kind)})) == (
        ErrorCode.INPUT_NOT_NULL,
        1,
    )


def test_more_digits_than_the_precision() -> None:
    wide = pa.array([Decimal("1.00"), Decimal("1000.00")], pa.decimal128(7, 2))
    narrow = pa.Array.from_buffers(pa.decimal128(5, 2), 2, wide.buffers())
    assert refusal(pa.table({"d": narrow})) == (ErrorCode.INPUT_INVALID, 1)


def test_slicing_by_weight_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table(
        {"a": list(range(1000)), "l": [[i] * (i % 5) for i in range(1000)], "s": [str(i) for i in range(1000)]}
    )
    whole = digests(table)
    monkeypatch.setattr(rows, "SLICE_BYTES", 4096)
    sliced = digests(table)
    assert (whole.digests == sliced.digests).all()
    assert whole.logical_bytes == sliced.logical_bytes


def test_a_folded_value_weighs_as_much_as_its_rows() -> None:
    folded = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, np.int32)), pa.array(["x" * 10_000]))
    assert layout.weight(folded) >= 10_000_000
    assert layout.weight(pa.array(["x"])) < 100


def test_no_records_and_no_columns() -> None:
    assert digests(pa.table({"a": pa.array([], pa.int8())})).digests.shape == (0, 32)


def test_one_string_for_all_rows_weighs_as_much_as_when_it_is_written_out() -> None:
    indices, lone = pa.array([0, None, 0], pa.int32()), pa.array(["x" * 50])
    several = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 50, "unused"]))
    assert layout.weight(pa.DictionaryArray.from_arrays(indices, lone)) == layout.weight(several) == 3 * 9 + 2 * 50

"""The encoder's edges: what it refuses and where, bounded slices, and inputs that Arrow alone would get wrong."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shardrel.canonical.rows import RowEncoder, content_digests
from shardrel.canonical.schema import physical_schema, record_schema, to_physical
from shardrel.canonical.slices import row_sizes, sliced
from shardrel.errors import ErrorCode, InvalidInputError
from tests.support import reference_rows


def text(values: list[bytes]) -> Any:
    """A string array whose bytes nobody checked."""
    offsets = np.concatenate([[0], np.cumsum([len(v) for v in values])]).astype(np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    )


def encoder(table: Any) -> RowEncoder:
    return RowEncoder(record_schema(table.schema))


BAD = text([b"good", "é".encode(), b"cut \xc3", b"\xed\xa0\x80", b"fine"])


@pytest.mark.parametrize(
    "column",
    [
        BAD,
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), BAD),
        pa.ListArray.from_arrays(pa.array([0, 1, 2, 5]), BAD),
        pa.StructArray.from_arrays([BAD], ["s"]),
        pa.MapArray.from_arrays([0, 1, 2, 5], BAD, pa.array([1] * 5)),
    ],
    ids=lambda column: str(column.type),
)
@pytest.mark.parametrize("slice_bytes", [1, 10_000])
def test_invalid_utf8_is_refused_with_its_row(column: Any, slice_bytes: int) -> None:
    table = pa.table({"x": column})
    with pytest.raises(InvalidInputError) as refused:
        encoder(table).content_digests(table, slice_bytes=slice_bytes)
    assert refused.value.code == ErrorCode.INPUT_UTF8
    assert refused.value.context["row"] == 2
    assert str(refused.value.context["column"]).startswith("x")


def test_text_cut_between_two_values_is_invalid_though_the_bytes_together_are_not() -> None:
    table = pa.table({"x": text([b"\xc3", b"\xa9"])})
    with pytest.raises(InvalidInputError) as refused:
        encoder(table).encode(table)
    assert refused.value.context["row"] == 0


def test_the_first_bad_row_is_named_and_not_the_first_bad_column() -> None:
    fields = [pa.field("late", pa.string()), pa.field("early", pa.int8(), nullable=False)]
    table = pa.Table.from_arrays(
        [text([b"a", b"b", b"\xff"]), pa.array([1, None, 1], pa.int8())], schema=pa.schema(fields)
    )
    with pytest.raises(InvalidInputError) as refused:
        encoder(table).encode(table)
    assert refused.value.code == ErrorCode.INPUT_NOT_NULL
    assert refused.value.context == {"column": "early", "row": 1}


@pytest.mark.parametrize("wrap", ["list", "struct", "map"])
def test_the_deepest_values_are_encoded(wrap: str) -> None:
    column = pa.array([1, None, 3], pa.int8())
    for _ in range(64):
        if wrap == "list":
            column = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3]), column)
        elif wrap == "struct":
            column = pa.StructArray.from_arrays([column], ["f"])
        else:
            column = pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), pa.array([1, 2, 3]), column)
    table = pa.table({"x": column})
    assert encoder(table).encode(table).rows.to_pylist() == reference_rows.encodings(table)


def test_invalid_bytes_under_a_null_are_not_seen() -> None:
    hidden = pa.Array.from_buffers(pa.string(), 5, [pa.py_buffer(b"\x13"), *BAD.buffers()[1:]])
    table = pa.table({"x": hidden})
    assert encoder(table).encode(table).rows.to_pylist() == reference_rows.encodings(table)


def test_the_row_counts_over_chunks() -> None:
    table = pa.table({"x": pa.chunked_array([["a"] * 5000, ["b"] * 5000, text([b"c", b"\xff"])])})
    for act in (encoder(table).encode, encoder(table).content_digests):
        with pytest.raises(InvalidInputError) as refused:
            act(table)
        assert refused.value.context["row"] == 10_001


@pytest.mark.parametrize(
    ("kind", "values", "column"),
    [
        (pa.int8(), [1, None], "x"),
        (pa.string(), ["a", None], "x"),
        (pa.list_(pa.field("item", pa.int8(), nullable=False)), [[1], [None]], "x[]"),
        (pa.list_(pa.field("item", pa.string(), nullable=False)), [["a"], [None]], "x[]"),
    ],
)
def test_a_null_where_the_schema_allows_none_is_refused(kind: Any, values: list[Any], column: str) -> None:
    nullable = pa.types.is_list(kind)
    table = pa.Table.from_arrays([pa.array(values, kind)], schema=pa.schema([pa.field("x", kind, nullable)]))
    with pytest.raises(InvalidInputError) as refused:
        encoder(table).content_digests(table)
    assert refused.value.code == ErrorCode.INPUT_NOT_NULL
    assert refused.value.context == {"column": column, "row": 1}


def test_a_child_of_a_null_struct_is_not_missing() -> None:
    kind = pa.struct([pa.field("a", pa.int8(), nullable=False)])
    table = pa.table({"x": pa.array([{"a": 1}, None], kind)})
    assert encoder(table).encode(table).rows.to_pylist() == reference_rows.encodings(table)


def test_a_decimal_with_more_digits_than_its_precision_is_refused() -> None:
    raw = b"".join(v.to_bytes(16, "little") for v in (99, 100))
    column = pa.Array.from_buffers(pa.decimal128(2, 0), 2, [None, pa.py_buffer(raw)])
    table = pa.table({"x": column})
    with pytest.raises(InvalidInputError) as refused:
        encoder(table).encode(table)
    assert refused.value.code == ErrorCode.INPUT_INVALID
    assert refused.value.context["row"] == 1
    assert refused.value.__cause__ is None or "100" not in str(refused.value.__cause__.__cause__)


@pytest.mark.parametrize("other", [pa.table({"y": [1]}), pa.table({"x": ["1"]}), pa.table({"x": [1], "y": [1]})])
def test_rows_with_other_columns_are_refused(other: Any) -> None:
    with pytest.raises(InvalidInputError) as refused:
        encoder(pa.table({"x": [1]})).encode(other)
    assert refused.value.code == ErrorCode.SCHEMA_CONFLICT


def test_rows_in_physical_types_give_the_same_bytes() -> None:
    seconds = pa.array([0, None, -5], pa.int64())
    table = pa.table(
        {
            "t": seconds.cast(pa.timestamp("s", "Europe/Zurich")),
            "d": seconds.cast(pa.duration("ms")),
            "n": pa.array([100, None, 300], pa.decimal128(3, -2)),
            "f": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.uint8(), 2)),
        }
    )
    schema = record_schema(table.schema)
    columns = [to_physical(column, field) for column, field in zip(table.columns, schema.fields, strict=True)]
    physical = pa.Table.from_arrays(columns, schema=physical_schema(schema))
    assert RowEncoder(schema).encode(physical).rows.equals(RowEncoder(schema).encode(table).rows)


def test_no_rows_and_empty_batches() -> None:
    empty = pa.table({"x": pa.array([], pa.list_(pa.string()))})
    assert encoder(empty).encode(empty).rows.to_pylist() == []
    digests = content_digests(record_schema(empty.schema), empty)
    assert (digests.digests.shape, digests.logical_bytes) == ((0, 32), 0)


def test_lengths_and_logical_bytes_count_the_encoding_alone() -> None:
    table = pa.table({"x": ["", "abc"]})
    assert encoder(table).encode(table).lengths.tolist() == [32 + 9, 32 + 9 + 3]
    assert encoder(table).content_digests(table).logical_bytes == 85


def test_tiny_chunks_give_what_one_chunk_gives() -> None:
    whole = pa.table({"x": list(range(300)), "s": [str(i) for i in range(300)]})
    tiny = pa.concat_tables([whole.slice(i, 1) for i in range(300)])
    assert np.array_equal(encoder(whole).content_digests(tiny).digests, encoder(whole).content_digests(whole).digests)


def test_dictionaries_of_half_floats_in_two_chunks_keep_their_values() -> None:
    # pyarrow 26 joins such chunks into other values; they must not be joined.
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), pa.array(np.array([value], np.float16)))
        for value in (1.5, -2.25)
    ]
    table = pa.table({"x": pa.chunked_array(chunks)})
    plain = pa.table({"x": pa.array(np.array([1.5, 1.5, -2.25, -2.25], np.float16))})
    expected = encoder(plain).content_digests(plain).digests
    assert np.array_equal(encoder(table).content_digests(table).digests, expected)


def test_one_large_value_many_times_is_cut_before_it_is_decoded() -> None:
    value = "x" * (1 << 20)
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2100, np.int32)), pa.array([value]))
    batch = pa.record_batch([column], ["x"])
    sizes = [piece.num_rows for piece in sliced(batch, 64 << 20)]
    assert sum(sizes) == 2100
    assert max(sizes) <= 64


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a" * 100, None, "b"], pa.string_view()),
        pa.array([b"a" * 100, b"", None], pa.large_binary()),
        pa.DictionaryArray.from_arrays(pa.array([0, None, 1]), pa.array(["a" * 100, "b"])),
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array(["a" * 100, "b"])),
        pa.array([["a" * 100], None, ["b"]], pa.list_(pa.string())),
        pa.array([[0] * 100, None, [1]], pa.list_view(pa.int8())),
        pa.array([[0] * 100, None, [1]], pa.large_list(pa.int8())),
        pa.array([[("k", "a" * 100)], None, []], pa.map_(pa.string(), pa.string())),
        pa.array([{"a": "a" * 100}, None, {"a": "b"}]),
        pa.array([1, None, 2], pa.int64()),
    ],
    ids=lambda column: str(column.type),
)
def test_sizes_are_known_before_decoding(column: Any) -> None:
    table = pa.table({"x": pa.concat_arrays([column, column])})
    sizes = row_sizes(table.to_batches()[0].slice(3))
    lengths = encoder(table).encode(table).lengths[3:] - 32
    assert np.all(sizes + 1 >= lengths)
    assert np.all(sizes <= lengths + 48)


def test_slices_are_in_order_and_complete() -> None:
    batch = pa.record_batch({"x": ["a" * n for n in (5, 500, 5, 5, 900, 1)]})
    pieces = list(sliced(batch, 60))
    assert pa.Table.from_batches(pieces).equals(pa.Table.from_batches([batch]))
    assert [piece.num_rows for piece in pieces] == [1, 1, 2, 1, 1]
    assert list(sliced(batch.slice(0, 0), 60)) == []

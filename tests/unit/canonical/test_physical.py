"""Physical types: one for each logical type, whatever the clothes, and Parquet keeps them."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardrel.canonical.schema import physical_schema, record_schema, to_physical
from shardrel.errors import ErrorCode, InvalidInputError
from tests.support.tables import LEAVES

ELEMENT = pa.field("element", pa.int8())


def physical(arrow: Any) -> Any:
    return physical_schema(record_schema(pa.schema([("x", arrow)]))).field(0).type


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        (pa.large_string(), pa.string()),
        (pa.dictionary(pa.int8(), pa.binary_view()), pa.binary()),
        (pa.binary(0), pa.binary()),
        (pa.decimal32(5, 2), pa.decimal128(5, 2)),
        (pa.decimal256(38, 2), pa.decimal128(38, 2)),
        (pa.decimal256(39, 2), pa.decimal256(39, 2)),
        (pa.decimal128(5, -2), pa.decimal128(5, 0)),
        (pa.decimal256(40, 41), pa.decimal256(40, 0)),
        (pa.date64(), pa.int64()),
        (pa.time32("s"), pa.int32()),
        (pa.timestamp("s", "UTC"), pa.int64()),
        (pa.timestamp("ns", "Asia/Tokyo"), pa.timestamp("ns", "UTC")),
        (pa.timestamp("ns"), pa.timestamp("ns")),
        (pa.duration("us"), pa.int64()),
        (pa.list_(pa.int8(), 3), pa.list_(ELEMENT)),
        (pa.large_list_view(pa.int8()), pa.list_(ELEMENT)),
        (pa.uuid(), pa.binary(16)),
        (pa.map_(pa.large_string(), pa.date64()), pa.map_(pa.string(), pa.int64())),
        (pa.struct([("a", pa.duration("s"))]), pa.struct([("a", pa.int64())])),
    ],
    ids=str,
)
def test_the_physical_type(arrow: Any, expected: Any) -> None:
    assert physical(arrow) == expected


@pytest.mark.parametrize("arrow", [*LEAVES, pa.list_(pa.binary(0)), pa.map_(pa.int8(), pa.date64())], ids=str)
def test_parquet_gives_physical_types_back(arrow: Any) -> None:
    schema = physical_schema(record_schema(pa.schema([pa.field("x", arrow), pa.field("y", arrow, arrow == pa.null())])))
    stored = io.BytesIO()
    pq.write_table(schema.empty_table(), stored, store_schema=False)
    assert pq.read_schema(pa.BufferReader(stored.getvalue())).equals(schema)


def test_clothes_become_equal_arrays() -> None:
    values = ["a", None, "bb", ""]
    plain = pa.array(values)
    clothes = [
        pa.array(values, pa.large_string()),
        pa.array(values, pa.string_view()),
        plain.dictionary_encode(),
        pa.concat_arrays([plain, plain]).slice(4),
        pa.concat_arrays([plain, plain]).cast(pa.large_string()).slice(4),
        pa.chunked_array([plain.slice(0, 1), plain.slice(1)]),
        pa.chunked_array([plain.slice(0, 3).dictionary_encode(), plain.slice(3).dictionary_encode()]),
    ]
    field = record_schema(pa.schema([("x", pa.string())])).fields[0]
    for worn in clothes:
        array = to_physical(worn, field)
        array.validate(full=True)
        assert array.equals(plain)


def test_nothing_is_copied_where_the_type_is_physical_already() -> None:
    array = pa.array([1, 2, 3])
    field = record_schema(pa.schema([("x", pa.int64())])).fields[0]
    assert to_physical(array, field).buffers()[1].address == array.buffers()[1].address
    tokens = pa.array([[1, 2], [3]], pa.list_(pa.uint16()))
    field = record_schema(pa.schema([("x", tokens.type)])).fields[0]
    assert to_physical(tokens, field).values.buffers()[1].address == tokens.values.buffers()[1].address


def test_no_chunks_are_an_empty_array() -> None:
    field = record_schema(pa.schema([("x", pa.date64())])).fields[0]
    assert to_physical(pa.chunked_array([], pa.date64()), field).equals(pa.array([], pa.int64()))


def test_values_past_32_bit_offsets_are_refused_and_not_wrapped() -> None:
    # Nulls have no buffers, so that many of them cost nothing.
    giant = pa.LargeListArray.from_arrays(pa.array([0, 2**31]), pa.nulls(2**31))
    field = record_schema(pa.schema([("x", giant.type)])).fields[0]
    with pytest.raises(InvalidInputError) as refused:
        to_physical(giant, field)
    assert refused.value.code == ErrorCode.INPUT_INVALID

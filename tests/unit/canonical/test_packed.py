"""Packed columns: bytes of a row's numbers, there and back."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.canonical.packed import Packing, pack, packed_fields, packing_of, unpacked
from shardrel.canonical.rows import content_digests
from shardrel.canonical.schema import physical_schema, record_schema, to_physical
from shardrel.errors import ErrorCode, InvalidInputError
from tests.support.tables import packable_columns
from verifier.packed import element_width


def physical(column: Any) -> tuple[Any, Any]:
    """The column as a table in physical types, and its schema."""
    schema = record_schema(pa.schema([("c", column.type)]))
    return pa.table([to_physical(column, schema.fields[0])], schema=physical_schema(schema)), schema


@settings(max_examples=150, deadline=None)
@given(packable_columns(), st.integers(0, 2))
def test_what_is_packed_is_read_back(column: Any, skip: int) -> None:
    table, schema = physical(column.slice(min(skip, len(column))))
    packed = pack(table, packed_fields(schema, ["c"]))
    assert packed.schema == pa.schema([("c", pa.binary())])
    back = unpacked(packed, schema.fields)
    back.validate(full=True)
    assert back.schema == table.schema
    ours, theirs = content_digests(schema, back), content_digests(schema, table)
    assert ours.digests.tobytes() == theirs.digests.tobytes()


@settings(max_examples=50, deadline=None)
@given(packable_columns(), st.data())
def test_any_cut_of_packed_rows_is_read_back(column: Any, data: st.DataObject) -> None:
    table, schema = physical(column)
    packed = pack(table, schema.fields)
    low = data.draw(st.integers(0, len(column)))
    high = data.draw(st.integers(low, len(column)))
    back = unpacked(packed.slice(low, high - low), schema.fields)
    ours, theirs = content_digests(schema, back), content_digests(schema, table.slice(low, high - low))
    assert ours.digests.tobytes() == theirs.digests.tobytes()


def test_the_bytes_are_those_of_the_numbers_one_after_the_other() -> None:
    inner = pa.FixedSizeListArray.from_arrays(pa.array(range(8), pa.uint16()), 2)
    table, schema = physical(pa.ListArray.from_arrays(pa.array([0, 1, 1, 4], pa.int32()), inner))
    assert packing_of(schema.fields[0]) == Packing(sizes=(2,), width=2)
    rows = pack(table, schema.fields).column(0).to_pylist()
    assert rows == [bytes([0, 0, 1, 0]), b"", bytes([2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0])]


@pytest.mark.parametrize(
    "kind",
    [
        pa.int32(), pa.string(), pa.binary(), pa.list_(pa.bool_()), pa.list_(pa.string()), pa.list_(pa.list_(pa.int8())),
        pa.list_(pa.list_(pa.int8(), 0)), pa.list_(pa.date32()), pa.map_(pa.int8(), pa.int8()), pa.struct([("a", pa.int8())]),
    ],
    ids=str,
)  # fmt: skip
def test_only_lists_of_numbers_can_be_packed(kind: Any) -> None:
    schema = record_schema(pa.schema([("c", kind)]))
    assert packing_of(schema.fields[0]) is None
    with pytest.raises(InvalidInputError) as raised:
        packed_fields(schema, ["c"])
    assert raised.value.code == ErrorCode.INPUT_COLUMN_TYPE


@pytest.mark.parametrize("sizes", [[2**30, 2**30, 16], [325137433, 1069, 1964, 27023], [2**31 - 1, 2], [2**29]])
def test_elements_of_more_than_2_gib_cannot_be_packed(sizes: list[int]) -> None:
    """The bytes of one wrap around in 64 bits, to zero or to a few."""
    kind = pa.int64()
    for size in reversed(sizes):
        kind = pa.list_(kind, size)
    fields = record_schema(pa.schema([("c", pa.list_(kind))])).fields
    assert packing_of(fields[0]) is None
    assert element_width(fields[0].type) == 0


@given(packable_columns())
@settings(deadline=None, max_examples=50)
def test_publisher_and_verifier_measure_elements_alike(column: Any) -> None:
    field = record_schema(pa.schema([("c", column.type)])).fields[0]
    packing = packing_of(field)
    assert packing is not None
    assert element_width(field.type) == packing.element


def test_a_column_that_is_not_there() -> None:
    with pytest.raises(InvalidInputError) as raised:
        packed_fields(record_schema(pa.schema([("c", pa.list_(pa.int8()))])), ["c", "d"])
    assert (raised.value.code, raised.value.context["column"]) == (ErrorCode.INPUT_NO_SUCH_COLUMN, "d")


@pytest.mark.parametrize(
    ("kind", "rows", "row"),
    [
        (pa.list_(pa.int8()), [[1], [], [2, None]], 2),
        (pa.list_(pa.int8()), [None, [None], [2]], 1),
        (pa.list_(pa.int8(), 2), [[1, 2], None, [3, None]], 2),
        (pa.list_(pa.list_(pa.int8(), 2)), [[[1, 2]], [], [[1, 2], [3, None]]], 2),
        (pa.list_(pa.list_(pa.int8(), 2)), [[[1, 2]], [[1, 2], None]], 1),
    ],
    ids=str,
)
def test_a_null_among_the_numbers_is_told_with_its_row(kind: Any, rows: Any, row: int) -> None:
    table, schema = physical(pa.array(rows, kind))
    with pytest.raises(InvalidInputError) as raised:
        pack(table, schema.fields)
    assert raised.value.code == ErrorCode.INPUT_NOT_NULL
    assert raised.value.context == {"column": "c", "row": row}


def test_bytes_that_are_no_whole_number_of_elements() -> None:
    schema = record_schema(pa.schema([("c", pa.list_(pa.int32()))]))
    with pytest.raises(pa.ArrowInvalid):
        unpacked(pa.table({"c": pa.array([b"abcd", b"abc"])}), schema.fields)


def test_a_column_of_bytes_stays_as_it_is() -> None:
    schema = record_schema(pa.schema([("c", pa.binary())]))
    table = pa.table({"c": pa.array([b"abcd"])})
    assert unpacked(table, schema.fields) is table

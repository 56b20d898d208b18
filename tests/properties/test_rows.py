"""The record encoding: agreement with the obvious encoder, and what changes it and what doesn't."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardrel.canonical.rows import RowEncoder
from shardrel.canonical.schema import physical_schema, record_schema, to_physical
from tests.support import reference_rows
from tests.support.tables import dressed_table, tables

few = settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))


def encode(table: Any) -> list[bytes]:
    rows: list[bytes] = RowEncoder(record_schema(table.schema)).encode(table).rows.to_pylist()
    return rows


@few
@given(tables())
def test_agrees_with_the_obvious_encoder(table: Any) -> None:
    assert encode(table) == reference_rows.encodings(table)


@few
@given(st.data())
def test_other_clothes_and_chunks_change_nothing(data: st.DataObject) -> None:
    table = data.draw(tables())
    worn = data.draw(dressed_table(table))
    assert encode(worn) == encode(table)
    assert reference_rows.encodings(worn) == reference_rows.encodings(table)


@few
@given(st.data())
def test_slices_of_any_size_give_the_digests_of_the_whole(data: st.DataObject) -> None:
    table = data.draw(dressed_table(data.draw(tables(max_rows=8))))
    encoder = RowEncoder(record_schema(table.schema))
    got = encoder.content_digests(table, slice_bytes=data.draw(st.sampled_from([1, 40, 200, 10_000])))
    assert [row.tobytes() for row in got.digests] == reference_rows.content_digests(table)
    assert got.logical_bytes == sum(map(len, reference_rows.encodings(table)))


@few
@given(st.data())
def test_records_are_equal_exactly_when_a_reader_sees_equal_values(data: st.DataObject) -> None:
    table = data.draw(tables(max_rows=6, max_columns=2))
    rows, seen = encode(table), [observed(table, i) for i in range(table.num_rows)]
    for i in range(len(rows)):
        for j in range(i):
            assert (rows[i] == rows[j]) == (seen[i] == seen[j])


@few
@given(st.data())
def test_a_parquet_round_trip_in_physical_types_changes_nothing(data: st.DataObject) -> None:
    table = data.draw(tables())
    schema = record_schema(table.schema)
    back = round_trip(data.draw(dressed_table(table)), schema, data.draw(parquet_options()))
    assert RowEncoder(schema).encode(back).rows.to_pylist() == encode(table)


def parquet_options() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "compression": st.sampled_from(["none", "zstd", "snappy", "gzip"]),
            "data_page_version": st.sampled_from(["1.0", "2.0"]),
            "use_dictionary": st.booleans(),
            "row_group_size": st.sampled_from([1, 2, 100]),
        }
    )


def round_trip(worn: Any, schema: Any, options: dict[str, Any]) -> Any:
    columns = [to_physical(c, f) for c, f in zip(worn.columns, schema.fields, strict=True)]
    stored = io.BytesIO()
    physical = pa.Table.from_arrays(columns, schema=physical_schema(schema))
    pq.write_table(physical, stored, store_schema=False, write_page_checksum=True, **options)
    back = pq.read_table(pa.BufferReader(stored.getvalue()), page_checksum_verification=True)
    assert back.schema.equals(physical_schema(schema))
    return back


def observed(table: Any, row: int) -> Any:
    return [value_of(column.chunk(0), row) if column.num_chunks else None for column in table.columns]


def value_of(array: Any, row: int) -> Any:
    """What a reader sees of one value, with floats by their bits."""
    if not array[row].is_valid:
        return None
    if pa.types.is_struct(array.type):
        return [value_of(array.field(i), row) for i in range(array.type.num_fields)]
    if pa.types.is_map(array.type) or pa.types.is_list(array.type):
        values = array[row].values
        return [value_of(values, i) for i in range(len(values))]
    if pa.types.is_floating(array.type):
        return reference_rows.body(array, row)
    if hasattr(array[row], "as_buffer"):
        return array[row].as_buffer().to_pybytes()
    return array[row].cast(pa.string()).as_py() if pa.types.is_boolean(array.type) else raw(array, row)


def raw(array: Any, row: int) -> bytes:
    return reference_rows.fixed_body(array, row, reference_rows.fixed_width(array.type) or 0)

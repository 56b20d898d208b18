"""Type and encoding faults that users of other tools reported, at the level of records.

Each is a set of twins that must have one logical digest, or neighbours that must not.
"""

import io
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardrel.canonical.rows import RowEncoder
from shardrel.canonical.schema import record_schema, schema_digest, unify
from shardrel.digest import Domain, domain_hash, u64
from shardrel.errors import ErrorCode, InvalidInputError


def logical(table: Any, **limits: int) -> bytes:
    """The logical digest of a table's rows."""
    encoder = RowEncoder(record_schema(table.schema))
    digests = encoder.content_digests(table, **limits).digests
    return domain_hash(Domain.STREAM, encoder.content_type, u64(table.num_rows), digests.tobytes())


def column(values: Any, kind: Any = None) -> Any:
    return pa.table({"x": values if isinstance(values, pa.Array) else pa.array(values, kind)})


def all_equal(*tables: Any) -> bool:
    return len({logical(table) for table in tables}) == 1


def all_different(*tables: Any) -> bool:
    return len({logical(table) for table in tables}) == len(tables)


def rewritten(table: Any, **options: Any) -> Any:
    stored = io.BytesIO()
    pq.write_table(table, stored, **options)
    return pq.read_table(pa.BufferReader(stored.getvalue()))


def test_text_is_one_whatever_the_width_of_its_offsets() -> None:
    values = ["", "a", None, "é" * 20]
    assert all_equal(*[column(values, kind) for kind in (pa.string(), pa.large_string(), pa.string_view())])
    raw = [b"", b"\xff", None, b"b" * 20]
    assert all_equal(*[column(raw, kind) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())])
    assert all_different(column(["a"], pa.string()), column(["a"], pa.binary()))


def test_a_large_text_that_repeats_is_digested_slice_by_slice() -> None:
    value = "0123456789abcdef" * 4096
    repeated = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200, np.int32)), pa.array([value]))
    nested = pa.StructArray.from_arrays([repeated], ["s"])
    plain = column([value] * 200)
    assert logical(column(repeated), slice_bytes=1 << 20) == logical(plain)
    assert logical(column(nested), slice_bytes=1 << 20) == logical(column([{"s": value}] * 200))


def test_a_rewrite_with_other_pages_and_dictionaries_changes_nothing() -> None:
    words = pa.array([f"w{i % 7}" if i < 500 else f"unique {i}" for i in range(1000)])
    table = pa.table({"w": words, "n": range(1000)})
    rewrites: list[dict[str, Any]] = [
        {"use_dictionary": False},
        {"dictionary_pagesize_limit": 64},
        {"data_page_version": "2.0", "compression": "zstd"},
        {"compression": "none", "version": "1.0"},
        {"row_group_size": 7},
        {"use_dictionary": False, "column_encoding": {"w": "DELTA_BYTE_ARRAY", "n": "DELTA_BINARY_PACKED"}},
        {"store_schema": False},
    ]
    arrow_dictionary = pa.table({"w": words.dictionary_encode(), "n": range(1000)})
    twins = [rewritten(table, **options) for options in rewrites] + [arrow_dictionary, rewritten(arrow_dictionary)]
    assert all_equal(table, *twins)


def test_one_value_changed_and_two_values_swapped_are_seen() -> None:
    assert all_different(column(["a", "b", "c"]), column(["a", "b", "d"]), column(["b", "a", "c"]))


def test_names_that_differ_by_case_and_dots_stay_apart() -> None:
    one, two = pa.array([1]), pa.array([2])
    dotted = pa.table({"s.a": one})
    nested = pa.table({"s": pa.StructArray.from_arrays([one], ["a"])})
    upper = pa.Table.from_arrays([one, two], ["a", "A"])
    lower = pa.Table.from_arrays([one, two], ["A", "a"])
    assert all_different(dotted, nested, upper, lower)


def test_two_columns_of_one_name_are_refused() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["v", "v"])
    with pytest.raises(InvalidInputError) as refused:
        logical(twice)
    assert refused.value.code == ErrorCode.SCHEMA_DUPLICATE_FIELD


def test_the_name_of_a_list_child_and_its_width_do_not_matter() -> None:
    values = [[1, 2], [], None, [None]]
    names = [pa.list_(pa.field(name, pa.int64())) for name in ("item", "element", "array_element")]
    assert all_equal(*[column(values, kind) for kind in [*names, pa.large_list(pa.int64()), pa.list_view(pa.int64())]])
    assert all_equal(column([[1, 2], None], pa.list_(pa.int64(), 2)), column([[1, 2], None], pa.list_(pa.int64())))


@pytest.mark.parametrize(
    ("kind", "states"),
    [
        (pa.list_(pa.int64()), [None, [], [None], [0], [None, None], [0, None], [None, 0]]),
        (pa.list_(pa.string()), [None, [], [None], [""], ["", ""], ["\0"], ["", None]]),
        (pa.list_(pa.list_(pa.int8())), [None, [], [None], [[]], [[None]], [[], []], [[0]], [[0], []], [[], [0]]]),
        (pa.struct([("a", pa.int8()), ("b", pa.string())]), [None, {}, {"a": 0}, {"b": ""}, {"a": 0, "b": ""}]),
        (pa.map_(pa.string(), pa.int8()), [None, [], [("", None)], [("", 0)], [("", 0), ("", 0)]]),
    ],
    ids=str,
)
def test_every_state_of_a_nested_value_is_another_record(kind: Any, states: list[Any]) -> None:
    assert all_different(*[column([state], kind) for state in states])


@pytest.mark.parametrize("separator", ["", "\0", "\x01", ",", "\x1f", "\n", '"', "\\", "\x00\x01"])
def test_values_do_not_move_across_the_border_of_columns_or_elements(separator: str) -> None:
    whole = f"1{separator}2{separator}3"
    cuts = [(whole[:i], whole[i:]) for i in range(len(whole) + 1)]
    assert all_different(*[pa.table({"a": [a], "b": [b]}) for a, b in cuts])
    assert all_different(*[column([list(cut)]) for cut in cuts])


def test_every_nan_and_both_zeros_are_data() -> None:
    bits = [0, 1 << 63, 0x7FF8 << 48, (0x7FF8 << 48) + 1, 0xFFF8 << 48, 0x7FF4 << 48]
    values = [column(np.array([one], np.uint64).view(np.float64)) for one in bits]
    assert all_different(*values, column([None], pa.float64()))
    for table in values:
        assert all_equal(table, rewritten(table), rewritten(table, use_dictionary=False, write_statistics=False))


def test_a_float_and_its_widened_copy_are_two_types() -> None:
    assert all_different(column([0.5], pa.float32()), column([0.5], pa.float64()), column([np.float16(0.5)]))


def test_spellings_of_utc_are_one_and_wall_time_is_another() -> None:
    instant = [1_700_000_000_000_000]
    spelled = [column(instant, pa.timestamp("us", zone)) for zone in ("UTC", "+00:00", "Etc/UTC", "Z")]
    assert all_equal(*spelled, *[rewritten(table, store_schema=False) for table in spelled])
    assert len({schema_digest(record_schema(table.schema)) for table in spelled}) == 1
    assert all_different(spelled[0], column(instant, pa.timestamp("us")))


def test_a_zone_label_is_bound_by_the_schema_alone() -> None:
    paris, utc = (column([0], pa.timestamp("us", zone)) for zone in ("Europe/Paris", "UTC"))
    assert all_equal(paris, utc)
    assert schema_digest(record_schema(paris.schema)) != schema_digest(record_schema(utc.schema))


def test_units_and_lost_digits_change_the_digest() -> None:
    exact = column([1_234_567_891], pa.timestamp("ns"))
    units = [column([1], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")]
    assert all_different(exact, column([1_234_567_000], pa.timestamp("ns")), *units)


def test_decimals_are_their_digits_and_not_their_holder() -> None:
    values = ["1.50", None, "-0.01"]
    kinds = [pa.decimal32(5, 2), pa.decimal64(5, 2), pa.decimal128(5, 2), pa.decimal256(5, 2)]
    held = [column(pa.array(values).cast(pa.decimal128(5, 2)).cast(kind)) for kind in kinds]
    stored = [rewritten(held[2], store_decimal_as_integer=flag) for flag in (True, False)]
    assert all_equal(*held, *stored)
    unscaled = column([150, None, -1], pa.int64())
    finer = column(pa.array(values).cast(pa.decimal128(6, 3)))
    assert all_different(held[0], unscaled, finer)


def test_decimals_of_two_precisions_do_not_share_a_schema() -> None:
    seven, eight = (record_schema(pa.schema([("x", pa.decimal128(p, 2))])) for p in (7, 8))
    with pytest.raises(InvalidInputError) as refused:
        unify([seven, eight])
    assert refused.value.code == ErrorCode.SCHEMA_CONFLICT


def test_large_integers_are_exact_beside_a_null() -> None:
    near = [column([value, None], pa.int64()) for value in (2**53, 2**53 + 1, 2**53 + 2)]
    top = [column([value], pa.uint64()) for value in (2**64 - 1, 2**64 - 2, 2**63)]
    assert all_different(*near, *top)


def test_labels_over_sixteen_bytes_change_the_schema_and_not_the_records() -> None:
    raw = pa.array([bytes(range(16))], pa.binary(16))
    unknown = pa.field("x", raw.type, metadata={"ARROW:extension:name": "example.thing"})
    labelled = pa.ExtensionArray.from_storage(pa.uuid(), raw)
    tables = [column(raw), column(labelled), pa.Table.from_arrays([raw], schema=pa.schema([unknown]))]
    assert all_equal(*tables)
    assert len({schema_digest(record_schema(table.schema)) for table in tables}) == 3


def test_a_tensor_cannot_pass_for_one_of_another_shape() -> None:
    flat = pa.array([[1, 2, 3, 4, 5, 6]], pa.list_(pa.int16(), 6))
    shapes = [pa.fixed_shape_tensor(pa.int16(), shape) for shape in ([2, 3], [3, 2])]
    schemas = [record_schema(column(pa.ExtensionArray.from_storage(shape, flat)).schema) for shape in shapes]
    assert schema_digest(schemas[0]) != schema_digest(schemas[1])
    with pytest.raises(InvalidInputError) as refused:
        unify(schemas)
    assert refused.value.code == ErrorCode.SCHEMA_CONFLICT


def test_metadata_of_tools_and_nullability_leave_the_records_alone() -> None:
    values = pa.array([1, 2])
    fields = [
        pa.field("x", pa.int64(), nullable=n, metadata=m)
        for n, m in itertools.product((True, False), (None, {"k": "v"}))
    ]
    tables = [pa.Table.from_arrays([values], schema=pa.schema([f], metadata={"pandas": "{}"})) for f in fields]
    assert all_equal(*tables)
    assert len({schema_digest(record_schema(table.schema)) for table in tables}) == 2

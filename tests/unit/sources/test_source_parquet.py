import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionConfig, SessionContext
from datafusion.dataframe import ParquetWriterOptions

from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.sources import open_source
from shardrel.sources.parquet_layout import check_tiling, footer_bytes, footer_start
from shardrel.sources.slicing import BATCH_ROWS, row_bytes, split_batch
from shardrel.sources.thrift import ThriftError, read_struct


def written(tmp_path: Path, table: Any, **options: Any) -> Any:
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, **options)
    return open_source(path)


def repeated(value: Any, rows: int) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value]))


def test_schema_rows_and_digest_are_those_of_the_file(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2, None], "l": [["x"], None, []]})
    source = written(tmp_path, table)

    assert source.schema == table.schema
    assert source.num_rows == 3
    assert source.digest == digest_of((tmp_path / "x.parquet").read_bytes())
    assert pa.Table.from_batches(source.batches()).equals(table)


@pytest.mark.parametrize("options", [{}, {"store_schema": False}, {"compression": "zstd", "use_dictionary": ["t"]}])
def test_a_value_that_a_dictionary_repeats_is_decoded_a_bounded_batch_at_a_time(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    value = "long " * 20_000
    table = pa.table({"n": np.arange(300), "t": repeated(value, 300).dictionary_decode()})
    source = written(tmp_path, table, dictionary_pagesize_limit=1 << 24, **options)

    batches = list(source.batches(batch_bytes=1 << 20))

    assert max(batch.nbytes for batch in batches) <= 1 << 20
    assert pa.Table.from_batches(batches).equals(table.cast(source.schema))


@pytest.mark.parametrize("nested", ["list", "struct"])
def test_repeated_text_inside_of_lists_and_structs_is_bounded_too(tmp_path: Path, nested: str) -> None:
    text = repeated("long " * 2_000, 200).dictionary_decode()
    offsets = pa.array(range(0, 202, 2), pa.int32())
    column = pa.ListArray.from_arrays(offsets, text) if nested == "list" else pa.StructArray.from_arrays([text], ["t"])
    table = pa.table({"v": column})
    source = written(tmp_path, table)

    batches = list(source.batches(batch_bytes=1 << 17))

    assert max(batch.nbytes for batch in batches) <= 1 << 17
    assert pa.Table.from_batches(batches).equals(table)


def test_a_row_that_is_larger_than_a_batch_stands_alone(tmp_path: Path) -> None:
    source = written(tmp_path, pa.table({"t": ["a", "b" * 5000, "c"]}))

    assert [batch.num_rows for batch in source.batches(batch_bytes=1000)] in ([1, 1, 1], [1, 2], [2, 1])


def test_many_small_row_groups_are_read_together(tmp_path: Path) -> None:
    source = written(tmp_path, pa.table({"n": np.arange(2000)}), row_group_size=1)

    assert [batch.num_rows for batch in source.batches()] == [2000]


def test_a_batch_has_a_bounded_number_of_rows(tmp_path: Path) -> None:
    source = written(tmp_path, pa.table({"b": np.zeros(BATCH_ROWS + 5, np.bool_)}))

    assert sorted(batch.num_rows for batch in source.batches()) == [5, BATCH_ROWS]


@pytest.mark.parametrize("options", [{"write_page_index": True}, {"write_page_index": True, "row_group_size": 10}])
def test_page_indexes_belong_to_the_file(tmp_path: Path, options: dict[str, Any]) -> None:
    source = written(tmp_path, pa.table({"a": np.arange(50), "b": ["x"] * 50}), **options)

    assert sum(batch.num_rows for batch in source.batches()) == 50


def test_bloom_filters_and_indexes_of_another_writer_belong_to_the_file(tmp_path: Path) -> None:
    table = pa.table({"a": np.arange(3000), "b": [f"v{at % 40}" for at in range(3000)]})
    frame = SessionContext(SessionConfig().with_target_partitions(1)).from_arrow(table)
    options = ParquetWriterOptions(bloom_filter_on_write=True, max_row_group_size=1000, statistics_enabled="page")
    frame.write_parquet_with_options(str(tmp_path / "out"), options)
    (path,) = (tmp_path / "out").glob("*.parquet")

    assert sum(batch.num_rows for batch in open_source(path).batches()) == 3000


@pytest.mark.parametrize(("filler", "sound"), [(bytes(16), True), (b"PAR1 and others.", False)])
def test_only_zeros_may_lie_where_the_footer_names_nothing(tmp_path: Path, filler: bytes, sound: bool) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": np.arange(50)}), sink)
    data = sink.getvalue()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    path = tmp_path / "x.parquet"
    path.write_bytes(data[:start] + filler + data[start:])

    if sound:
        assert open_source(path).num_rows == 50
        return
    with pytest.raises(InvalidInputError) as refusal:
        open_source(path)
    assert refusal.value.code == ErrorCode.INPUT_CORRUPT


def test_parts_that_overlap_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": np.arange(50)}), path)

    class Twice:
        num_row_groups = 2

        def row_group(self, _: int) -> Any:
            return pq.read_metadata(path).row_group(0)

    with pytest.raises(InvalidInputError) as refusal:
        check_tiling(path, path.stat().st_size, Twice())
    assert refusal.value.code == ErrorCode.INPUT_CORRUPT


def test_a_flipped_bit_is_found_by_the_page_checksum(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(
        pa.table({"a": np.arange(50)}), path, write_page_checksum=True, compression="none", use_dictionary=False
    )
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)

    with pytest.raises(InvalidInputError) as refusal:
        list(open_source(path).batches())
    assert refusal.value.code == ErrorCode.INPUT_CORRUPT


def test_a_file_that_is_replaced_while_it_is_read_is_refused(tmp_path: Path) -> None:
    source = written(tmp_path, pa.table({"a": [1, 2]}))
    batches = source.batches()
    next(batches)
    pq.write_table(pa.table({"a": [3, 4]}), tmp_path / "y.parquet")
    (tmp_path / "y.parquet").rename(tmp_path / "x.parquet")

    with pytest.raises(InvalidInputError) as refusal:
        list(batches)
    assert refusal.value.code == ErrorCode.SOURCE_CHANGED


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", None, "bcd"]),
        pa.array(["a", None, "bcd"], pa.string_view()),
        pa.array(["a", "bcd", "a"]).dictionary_encode(),
        pa.array([["a", "b"], None, ["cd"]]),
        pa.array([["a", "b"], None, ["cd"]], pa.list_view(pa.string())),
        pa.array([["a", "b"], None, ["cd", None]], pa.list_(pa.string(), 2)),
        pa.array([{"x": "a"}, None, {"x": "bcd"}]),
        pa.array([[("k", "v")], None, []], pa.map_(pa.string(), pa.string())),
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "bcd"])),
    ],
    ids=lambda array: str(array.type),
)
def test_row_sizes_of_a_slice_are_those_of_its_rows(array: Any) -> None:
    whole = row_bytes(array)

    assert row_bytes(array.slice(1, 2)).tolist() == whole[1:].tolist()


def test_slices_are_together_the_batch() -> None:
    batch = pa.record_batch({"t": [str(at) * (at % 50) for at in range(500)]})

    pieces = list(split_batch(batch, 1000))

    assert len(pieces) > 5
    assert pa.Table.from_batches(pieces).equals(pa.Table.from_batches([batch]))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x15",
        b"\x18\xff\xff\xff\xff\x0f",
        b"\x19\xfc\xff\xff\xff\xff\x0f",
        b"\x1d\x00",
        b"\x1c" * 99,
        b"\x15\x02\x01\x02\x00",
    ],
)
def test_thrift_that_is_not_whole_is_an_error(data: bytes) -> None:
    with pytest.raises(ThriftError):
        read_struct(data)


def test_a_footer_whose_levels_contradict_its_histograms_is_refused_and_does_not_end_the_process(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.parquet"
    column = pq.read_metadata(_nullable(path)).schema.column(0)
    start, footer = footer_start(path, path.stat().st_size), footer_bytes(path, path.stat().st_size)
    assert column.max_definition_level == 1

    # The schema element of the column turns from optional into required: one bit.
    at = footer.index(b"\x15\x04\x25\x02\x18\x01v") + 3
    data = bytearray(path.read_bytes())
    data[start + at] ^= 2
    path.write_bytes(data)

    with pytest.raises(InvalidInputError) as refusal:
        open_source(path)
    assert refusal.value.code == ErrorCode.INPUT_CORRUPT


def _nullable(path: Path) -> Path:
    pq.write_table(pa.table({"v": pa.array([1, None], pa.int64())}), path, store_schema=False)
    return path


def test_keys_behind_the_last_entry_of_a_damaged_map_are_not_counted(tmp_path: Path) -> None:
    maps = pa.array([[("a", 1), ("b", None)], [], None, [("c", 3)]] * 4, pa.map_(pa.string(), pa.int8()))
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"m": maps}), path, compression="none", use_dictionary=False, store_schema=False)
    column = pq.read_metadata(path).row_group(0).column(1)
    data, uneven = path.read_bytes(), 0
    for bit in range(8 * column.data_page_offset, 8 * (column.data_page_offset + column.total_compressed_size)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            arrays = [batch.column(0) for batch in open_source(path).batches()]
        except InvalidInputError:
            continue
        uneven += sum(len(array.keys) != len(array.items) for array in arrays)
        assert all(len(row_bytes(array)) == len(array) for array in arrays)
    assert uneven

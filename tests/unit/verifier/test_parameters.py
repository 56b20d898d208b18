"""What the root declares of the stored form, against pages and footers."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from shardrel.errors import ErrorCode
from shardrel.records.release import ColumnEncoding, Compression, Serializer
from verifier.pages import DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE
from verifier.parameters import departures
from verifier.structure import FlawError, Limits, Opened, open_file

ZSTD = Compression(codec="zstd", level=3)
BY_INDEX = (DATA_PAGE, 8)
PLAIN = (DATA_PAGE, 0)
ENTRIES = (DICTIONARY_PAGE, None)


def column(path: str, *, dictionary: bool, encoding: Any = "PLAIN") -> ColumnEncoding:
    """An entry of ``serializer.columns``."""
    return ColumnEncoding(path=path, physical="native", dictionary=dictionary, encoding=encoding)


SERIALIZER = Serializer(
    name="shardrel-parquet",
    version=1,
    library="pyarrow",
    library_version="1",
    format_version="2.6",
    data_page_version="1.0",
    page_checksums=True,
    row_group_records=50,
    columns=(column("s", dictionary=True), column("n", dictionary=False, encoding="BYTE_STREAM_SPLIT")),
)


def written(table: Any, **options: Any) -> Opened:
    """A file as ``SERIALIZER`` says, unless an option says otherwise, opened."""
    sink = io.BytesIO()
    declared: dict[str, Any] = {
        "compression": "zstd",
        "use_dictionary": ["s"],
        "column_encoding": {"n": "BYTE_STREAM_SPLIT"},
        "row_group_size": 50,
        "store_schema": False,
        "write_page_checksum": True,
    }
    pq.write_table(table, sink, **{**declared, **options})
    bounds = Limits(records=table.num_rows, uncompressed=1 << 30, values=1 << 20)
    return open_file(sink.getvalue(), bounds, table.schema, checksums=True)


def records(count: int) -> Any:
    """So many records of a string and a number."""
    return pa.table({"s": [f"value {i % 3}" for i in range(count)], "n": pa.array(range(count), pa.int32())})


def found(opened: Opened, serializer: Serializer = SERIALIZER, compression: Compression = ZSTD) -> dict[str, int]:
    """Observations: first words and count."""
    spots = list(departures(opened, serializer, compression, (), "shard"))
    assert {spot.code for spot in spots} <= {ErrorCode.PARQUET_PARAMETERS}
    return {(spot.detail or "").split(" with ")[-1]: spot.count for spot in spots}


@pytest.mark.parametrize("count", [0, 1, 49, 50, 51, 100, 120])
def test_a_file_as_declared_has_nothing(count: int) -> None:
    assert found(written(records(count))) == {}


@pytest.mark.parametrize("codec", ["snappy", "gzip", "lz4", "none"])
def test_every_codec_is_known_by_its_name(codec: Any) -> None:
    opened = written(records(60), compression=codec)
    assert found(opened, compression=Compression(codec=codec, level=None)) == {}
    assert found(opened) == {"another codec": 4}


def test_one_column_of_another_codec() -> None:
    assert found(written(records(60), compression={"s": "zstd", "n": "gzip"})) == {"another codec": 2}


@pytest.mark.parametrize(("size", "wrong"), [(20, 2), (60, 1), (49, 1)])
def test_row_groups_of_another_size(size: int, wrong: int) -> None:
    assert found(written(records(60), row_group_size=size)) == {"row groups of another size": wrong}


def test_an_empty_row_group_behind_full_ones() -> None:
    sink = io.BytesIO()
    table = records(50)
    options: dict[str, Any] = {"use_dictionary": ["s"], "column_encoding": {"n": "BYTE_STREAM_SPLIT"}}
    with pq.ParquetWriter(sink, table.schema, compression="zstd", store_schema=False, **options) as writer:
        writer.write_table(table)
        writer.write_table(table.slice(0, 0))
    bounds = Limits(records=50, uncompressed=1 << 20, values=1 << 20)
    opened = open_file(sink.getvalue(), bounds, table.schema, checksums=False)
    assert found(opened) == {"row groups of another size": 1}


@pytest.mark.parametrize(
    "options",
    [
        {"use_dictionary": False},
        {"column_encoding": {"n": "PLAIN"}},
        {"column_encoding": {"n": "DELTA_BINARY_PACKED"}},
        {"use_dictionary": ["s", "n"], "column_encoding": None},
    ],
)
def test_a_column_of_another_encoding(options: dict[str, Any]) -> None:
    assert found(written(records(40), **options)) == {"pages of another encoding or version": 1}


def test_pages_and_format_of_another_version() -> None:
    assert found(written(records(40), data_page_version="2.0")) == {"pages of another encoding or version": 2}
    assert found(written(records(40), version="1.0")) == {"another version of the format": 1}


def test_a_dictionary_that_grew_too_large_is_given_up() -> None:
    table = pa.table({"s": [f"{i:040d}" for i in range(40_000)], "n": pa.array(range(40_000), pa.int32())})
    opened = written(table, row_group_size=50_000)
    assert opened.kinds[0] == (ENTRIES, BY_INDEX, PLAIN)
    assert found(opened, replace(SERIALIZER, row_group_records=50_000)) == {}


@pytest.mark.parametrize(
    ("kinds", "sound"),
    [
        ((), True),
        ((ENTRIES,), True),
        ((ENTRIES, BY_INDEX), True),
        ((ENTRIES, BY_INDEX, PLAIN), True),
        ((PLAIN,), False),
        ((ENTRIES, PLAIN, BY_INDEX), False),
        ((ENTRIES, ENTRIES, BY_INDEX), False),
        ((ENTRIES, BY_INDEX, (DATA_PAGE, 6)), False),
        ((ENTRIES, (DATA_PAGE_V2, 8)), False),
    ],
)
def test_pages_of_a_column_with_a_dictionary(kinds: Any, sound: bool) -> None:
    opened = written(records(40))
    opened = Opened(metadata=opened.metadata, kinds=(kinds, opened.kinds[1]))
    assert (found(opened) == {}) is sound


@pytest.mark.parametrize(
    "columns",
    [
        (),
        SERIALIZER.columns[:1],
        SERIALIZER.columns[::-1],
        (*SERIALIZER.columns, column("more", dictionary=False)),
        (replace(SERIALIZER.columns[0], physical="packed"), SERIALIZER.columns[1]),
    ],
)
def test_columns_that_are_not_those_of_the_file(columns: Any) -> None:
    got = found(written(records(40)), replace(SERIALIZER, columns=columns))
    assert list(got) == ["columns that are not those of serializer.columns"]


def test_two_leaves_of_one_dotted_path_share_an_entry() -> None:
    table = pa.table(
        {"a.b": pa.array([1, 2], pa.int32()), "a": pa.array([{"b": 1}, {"b": 2}], pa.struct([("b", pa.int32())]))}
    )
    opened = written(table, use_dictionary=False, column_encoding=None)
    assert found(opened, replace(SERIALIZER, columns=(column("a.b", dictionary=False),))) == {}


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_the_largest_pages_of_a_row_group_are_bounded_together(version: str) -> None:
    table = pa.table({"s": [f"{i:040d}" for i in range(5000)], "n": pa.array(range(5000), pa.int32())})
    sink = io.BytesIO()
    pq.write_table(
        table, sink, compression="zstd", store_schema=False, write_page_checksum=True, use_dictionary=["s"],
        data_page_version=version, row_group_size=2500,
    )  # fmt: skip
    # Each row group: a dictionary of 2,500 x 44 bytes with its indices, and 2,500 x 4 bytes of numbers.
    whole = Limits(records=5000, uncompressed=1 << 30, values=5000, pages=130_000)
    open_file(sink.getvalue(), whole, table.schema, checksums=True)
    with pytest.raises(FlawError) as caught:
        open_file(sink.getvalue(), replace_pages(whole, 115_000), table.schema, checksums=True)
    assert caught.value.code == ErrorCode.PARQUET_EXPANSION


def replace_pages(bounds: Limits, pages: int) -> Limits:
    """The same bounds but for the pages."""
    return Limits(records=bounds.records, uncompressed=bounds.uncompressed, values=bounds.values, pages=pages)

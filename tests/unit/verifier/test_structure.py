"""Bounds and layout of Parquet objects, before anything is decoded."""

import io
import zlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardrel.errors import ErrorCode
from verifier import pages
from verifier.decode import SLACK_BYTES, batches
from verifier.structure import FlawError, Limits, limits, open_file

TABLE = pa.table({"a": pa.array(range(1000)), "s": [f"value {i % 7}" for i in range(1000)]})


def written(table: Any, **options: Any) -> bytes:
    """A Parquet file, with checksums unless an option says otherwise."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **{"store_schema": False, "write_page_checksum": True, **options})
    return sink.getvalue()


def opened(data: bytes, table: Any, bounds: Limits | None = None) -> Any:
    """The file, checked."""
    return open_file(data, bounds or limits(table.num_rows, table.nbytes, 0, 2), table.schema, checksums=True)


def refusal(data: bytes, table: Any, bounds: Limits | None = None) -> ErrorCode:
    """Code of the refusal."""
    with pytest.raises(FlawError) as caught:
        opened(data, table, bounds)
    return caught.value.code


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "none"},
        {"compression": "zstd", "row_group_size": 7},
        {"data_page_version": "2.0"},
        {"use_dictionary": False, "column_encoding": "PLAIN", "data_page_size": 100},
        {"write_statistics": False},
    ],
)
def test_sound_files_open_and_decode(options: dict[str, Any]) -> None:
    data = written(TABLE, **options)
    file = opened(data, TABLE)
    got = pa.Table.from_batches(list(batches(data, file, unfolded_bytes=TABLE.nbytes)))
    assert got.cast(TABLE.schema).equals(TABLE)


def test_a_file_of_no_records_is_sound() -> None:
    empty = TABLE.slice(0, 0)
    data = written(empty)
    assert sum(batch.num_rows for batch in batches(data, opened(data, empty), unfolded_bytes=0)) == 0


@pytest.mark.parametrize("codec", [b"\x15\x0d", b"\x15\x10", b"\x15\x0d\x01\x08"], ids=["-7", "8", "-7 and then true"])
def test_a_codec_that_does_not_exist_is_refused_before_pyarrow_is_asked_for_it(codec: bytes) -> None:
    """Asked for it, pyarrow ends the process."""
    data = written(TABLE, compression="zstd", use_dictionary=False)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[start:-8].replace(b"\x15\x0c\x16", codec + b"\x16")
    assert footer != data[start:-8]
    assert (
        refusal(data[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1", TABLE) == ErrorCode.PARQUET_FOOTER
    )


@pytest.mark.parametrize("options", [{}, {"data_page_version": "2.0"}, {"compression": "none"}])
def test_every_page_has_the_checksum_that_was_written(options: dict[str, Any]) -> None:
    data = written(TABLE, **options)
    column = pq.read_metadata(io.BytesIO(data)).row_group(0).column(1)
    found = list(pages.walk(memoryview(data), column.dictionary_page_offset, column.total_compressed_size))
    assert found[0].dictionary
    assert sum(page.values for page in found[1:]) == TABLE.num_rows
    assert all(page.crc is not None and pages.crc_matches(memoryview(data), page) for page in found)


def test_every_flipped_bit_of_a_page_is_noticed() -> None:
    small = TABLE.slice(0, 20)
    data = bytearray(written(small, compression="none", use_dictionary=False))
    column = pq.read_metadata(io.BytesIO(bytes(data))).row_group(0).column(0)
    page = next(iter(pages.walk(memoryview(bytes(data)), column.data_page_offset, column.total_compressed_size)))
    for bit in range(8 * page.compressed):
        data[page.start + bit // 8] ^= 1 << bit % 8
        assert refusal(bytes(data), small) == ErrorCode.PARQUET_PAGE_CHECKSUM
        data[page.start + bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("seed", range(40))
def test_damaged_headers_never_get_past_the_walk_unnoticed(seed: int) -> None:
    data = bytearray(written(TABLE))
    column = pq.read_metadata(io.BytesIO(bytes(data))).row_group(0).column(0)
    start = min(column.dictionary_page_offset or column.data_page_offset, column.data_page_offset)
    data[start + seed % 20] ^= 1 << seed % 8
    try:
        found = list(pages.walk(memoryview(data), start, column.total_compressed_size))
    except pages.BrokenPagesError:
        return
    assert all(0 <= page.compressed <= column.total_compressed_size for page in found)


def test_pages_without_checksums() -> None:
    assert refusal(written(TABLE, write_page_checksum=False), TABLE) == ErrorCode.PARQUET_PAGE_CHECKSUM_ABSENT


def test_other_rows_than_declared() -> None:
    bounds = limits(999, TABLE.nbytes, 0, 2)
    assert refusal(written(TABLE), TABLE, bounds) == ErrorCode.RECORD_COUNT


def test_two_files_glued_together() -> None:
    other = written(TABLE.slice(0, 10))
    assert refusal(other + written(TABLE), TABLE) == ErrorCode.PARQUET_STRUCTURE


def test_bytes_that_belong_to_nothing() -> None:
    data = written(TABLE)
    footer = int.from_bytes(data[-8:-4], "little") + 8
    padded = data[:-footer] + bytes(16) + data[-footer:]
    assert refusal(padded, TABLE) == ErrorCode.PARQUET_STRUCTURE


@pytest.mark.parametrize("length", [2**31 - 1, 2**24 + 1, 10**6])
def test_footers_that_are_too_large(length: int) -> None:
    data = written(TABLE)[:-8] + length.to_bytes(4, "little") + b"PAR1"
    assert refusal(data, TABLE) == ErrorCode.PARQUET_FOOTER


def test_int96() -> None:
    times = pa.table({"t": pa.array([1, 2], pa.timestamp("ns"))})
    data = written(times, use_deprecated_int96_timestamps=True)
    assert refusal(data, times) == ErrorCode.SCHEMA_INT96


def test_pages_that_expand_beyond_what_is_declared() -> None:
    big = pa.table({"s": ["x" * 1_000_000] * 40})
    data = written(big, use_dictionary=False, compression="zstd")
    assert len(data) < 1_000_000
    assert refusal(data, big, limits(40, 40 * 100, 0, 1)) == ErrorCode.PARQUET_EXPANSION


def test_a_small_dictionary_of_huge_values_is_never_unfolded() -> None:
    folded = pa.DictionaryArray.from_arrays(pa.array([0] * 3000, pa.int32()), pa.array(["x" * 1_000_000]))
    data = written(pa.table({"s": folded}), compression="zstd", use_dictionary=True)
    declared = 3_000_000
    file = opened(data, pa.table({"s": pa.array([""] * 3000)}), limits(3000, declared, 0, 1))
    before = pa.total_allocated_bytes()
    with pytest.raises(FlawError) as caught:
        list(batches(data, file, unfolded_bytes=declared))
    assert pa.total_allocated_bytes() - before < 100_000_000
    assert caught.value.code == ErrorCode.PARQUET_EXPANSION
    assert declared + SLACK_BYTES < 3000 * 1_000_000


@pytest.mark.parametrize("column", ["id", "s", "f"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_no_column_may_be_front_coded(column: str, version: str) -> None:
    table = pa.table({"id": ["a", "ab"], "s": ["b", "bc"], "f": pa.array([b"aa", b"ab"], pa.binary(2))})
    coded = {"use_dictionary": False, "data_page_version": version}
    assert opened(written(table, **coded), table).metadata.num_rows == 2
    coded["column_encoding"] = {column: "DELTA_BYTE_ARRAY"}
    assert refusal(written(table, **coded), table) == ErrorCode.PARQUET_EXPANSION


# A page header in Thrift's compact protocol: type, sizes, and a data page header of 2 values in encoding 7.
_SIZES = bytes([0x15, 0, 0x15, 0])
_V1 = bytes([0x2C, 0x15, 4, 0x15, 14, 0x15, 6, 0x15, 6, 0])
_V2 = bytes([0x3C, 0x15, 4, 0x15, 0, 0x15, 4, 0x15, 14, 0x15, 0, 0x15, 0, 0])


def walked(header: bytes) -> list[pages.Page]:
    return list(pages.walk(memoryview(header), 0, len(header)))


@pytest.mark.parametrize("kind", [0, 3])
def test_the_header_of_the_pages_own_type_counts(kind: int) -> None:
    innocent = {0: _V2.replace(bytes([14]), bytes([0])), 3: _V1.replace(bytes([14]), bytes([0]))}[kind]
    parts = [_V1, innocent] if kind == 0 else [innocent, _V2]
    (page,) = walked(bytes([0x15, 2 * kind]) + _SIZES + b"".join(parts) + b"\0")
    assert page.front_coded
    assert page.values == 2


@pytest.mark.parametrize(
    "inner",
    [
        bytes([0x2C, 0x15, 4, 0x15, 14, 0x05, 4, 0, 0]),  # the encoding again, as a number that says plain
        bytes([0x2C, 0x15, 4, 0x15, 14, 0x08, 4, 0, 0]),  # again, as a text
        bytes([0x2C, 0x15, 4, 0x25, 14, 0]),  # no encoding
        bytes([0x28, 0]),  # a text in place of the header
        b"",
    ],
)
def test_headers_that_readers_could_read_in_two_ways_are_broken(inner: bytes) -> None:
    with pytest.raises(pages.BrokenPagesError):
        walked(bytes([0x15, 0]) + _SIZES + inner + b"\0")


def test_lists_that_hold_more_values_than_bytes_were_declared() -> None:
    bomb = pa.table({"l": pa.array([[None] * 100_000], pa.list_(pa.null()))})
    assert refusal(written(bomb), bomb, limits(1, 1000, 0, 1)) == ErrorCode.PARQUET_EXPANSION


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" * 3, bytes(100), b"<html></html>" * 10])
def test_what_is_no_parquet_at_all(data: bytes) -> None:
    assert refusal(data, TABLE) in {ErrorCode.PARQUET_STRUCTURE, ErrorCode.PARQUET_FOOTER}


def changed_pages(data: bytes, start: int, length: int) -> Iterator[bytes]:
    """The file with one bit of a chunk's last page changed and its checksum made right again."""
    *_, page = pages.walk(memoryview(data), start, length)
    body = data[page.start : page.start + page.compressed]
    old = zigzag(zlib.crc32(body))
    place = data.rindex(old, start, page.start)
    for bit in range(8 * len(body)):
        other = bytearray(body)
        other[bit // 8] ^= 1 << bit % 8
        new = zigzag(zlib.crc32(other))
        if len(new) == len(old):
            head = data[:place] + new + data[place + len(old) : page.start]
            yield head + bytes(other) + data[page.start + page.compressed :]


def zigzag(crc: int) -> bytes:
    """A checksum as Thrift's compact protocol writes an i32."""
    signed = crc - (1 << 32) if crc >> 31 else crc
    value, out = (signed << 1) ^ (signed >> 31), bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize(
    "values",
    [
        pa.array([f"v{i % 5}" for i in range(60)]),
        pa.array([[f"v{i % 5}", None] for i in range(60)]),
        pa.array([{"a": f"v{i % 5}"} for i in range(60)]),
        pa.array([[("k", f"v{i % 5}")] for i in range(60)], pa.map_(pa.string(), pa.string())),
    ],
    ids=["flat", "list", "struct", "map"],
)
def test_no_index_that_names_no_entry_gets_out_of_decoding(values: Any) -> None:
    table = pa.table({"id": range(60), "c": values})
    table = table.cast(pq.read_schema(pa.BufferReader(written(table))))
    data = written(table, compression="none")
    group = pq.read_metadata(io.BytesIO(data)).row_group(0)
    refused = []
    column = group.column(group.num_columns - 1)
    for changed in changed_pages(data, column.dictionary_page_offset, column.total_compressed_size):
        try:
            file = open_file(
                changed, Limits(records=60, uncompressed=1 << 20, values=1 << 20), table.schema, checksums=True
            )
            for batch in batches(changed, file, unfolded_bytes=1 << 20):
                batch.validate(full=True)
        except FlawError as flaw:
            refused.append(flaw.code)
    assert len(refused) > 10
    assert set(refused) == {ErrorCode.PARQUET_STRUCTURE}

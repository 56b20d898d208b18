"""The pure rules of publishing: sharding, column encodings, row groups, encoded bytes, index parts, provenance."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher import member_index
from publisher.columns import SAMPLE_RECORDS, column_encodings, row_group_records, sample_positions
from publisher.encode import encode_shard, serializer_of
from publisher.member_index import index_table, put_parts
from publisher.parallel import in_order
from publisher.partition import shard_count, shard_id, shard_numbers
from publisher.provenance import Build, has_provenance, provenance
from publisher.stage import Prepared, stage
from shardrel.canonical.rows import RowEncoder
from shardrel.canonical.schema import physical_schema, record_schema, to_physical
from shardrel.digest import Domain, domain_hash, u64
from shardrel.gate.attestations import attach
from shardrel.records.release import Compression
from shardrel.store.memory import MemoryStore
from shardrel.trust.keys import generate
from tests.support.members import members_of
from tests.support.tables import tables

MASK = (1 << 64) - 1


def slow_shard(leaf: bytes, shards: int, seed: int) -> int:
    z = int.from_bytes(leaf[:8], "little") + int.from_bytes(domain_hash(Domain.SEED, u64(seed))[:8], "little") & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return (z ^ z >> 31) % shards


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(min_size=32, max_size=32), max_size=20), st.integers(1, 10**6), st.integers(0, 2**53 - 1))
def test_shard_numbers_agree_with_the_definition(leaves: list[bytes], shards: int, seed: int) -> None:
    matrix = np.frombuffer(b"".join(leaves), np.uint8).reshape(len(leaves), 32)
    assert shard_numbers(matrix, shards, seed).tolist() == [slow_shard(leaf, shards, seed) for leaf in leaves]


def test_shards_are_about_equally_full() -> None:
    leaves = np.random.default_rng(1).integers(0, 256, (100_000, 32), dtype=np.uint8)
    counts = np.bincount(shard_numbers(leaves, 100, 3), minlength=100)
    assert 800 < counts.min() <= counts.max() < 1200


def test_shard_names_and_counts() -> None:
    assert (shard_id(3, 12), shard_id(123456, 1_000_000)) == ("shard-00003-of-00012", "shard-123456-of-1000000")
    assert [shard_count(n, 10) for n in (0, 1, 10, 11, 100)] == [1, 1, 1, 2, 10]


def test_the_sample_is_spread_over_all_records() -> None:
    assert sample_positions(5).tolist() == [0, 1, 2, 3, 4]
    positions = sample_positions(SAMPLE_RECORDS * 10)
    assert (len(positions), positions[1], positions[-1]) == (SAMPLE_RECORDS, 10, SAMPLE_RECORDS * 10 - 10)


def chosen(**columns: Any) -> dict[str, tuple[bool, str]]:
    return {c.path: (c.dictionary, c.encoding) for c in column_encodings(pa.table(columns))}


def test_encodings_follow_types_and_repetition() -> None:
    n = 100
    assert chosen(
        _shardrel_sample_id=pa.array([f"id {i}" for i in range(n)]),
        label=pa.array(["a", None] * (n // 2), pa.string()),
        text=pa.array([f"text {i}" for i in range(n)]),
        raw=pa.array([b"x%d" % i for i in range(n)]),
        number=pa.array([1] * n, pa.int8()),
        flag=pa.array([True] * n),
        fixed=pa.array([b"ab"] * n, pa.binary(2)),
        when=pa.array([1] * n, pa.timestamp("us")),
    ) == {
        "_shardrel_sample_id": (False, "DELTA_LENGTH_BYTE_ARRAY"),
        "label": (True, "PLAIN"),
        "text": (False, "DELTA_LENGTH_BYTE_ARRAY"),
        "raw": (False, "DELTA_LENGTH_BYTE_ARRAY"),
        "number": (False, "BYTE_STREAM_SPLIT"),
        "flag": (False, "PLAIN"),
        "fixed": (False, "PLAIN"),
        "when": (False, "BYTE_STREAM_SPLIT"),
    }


def test_large_values_get_no_dictionary_however_often_they_come_back() -> None:
    assert chosen(text=pa.array(["x" * 300_000] * 8)) == {"text": (False, "DELTA_LENGTH_BYTE_ARRAY")}


def test_nested_leaves_have_the_paths_that_parquet_gives_them() -> None:
    table = pa.table(
        {
            "l": pa.array([[["a"]], []], pa.list_(pa.field("element", pa.list_(pa.field("element", pa.string()))))),
            "m": pa.array([[("k", 1.5)], None], pa.map_(pa.string(), pa.float64())),
            "s": pa.array([{"a": 1, "b": [True]}, None], pa.struct([("a", pa.int8()), ("b", pa.list_(pa.bool_()))])),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    group = pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata.row_group(0)
    paths = [group.column(i).path_in_schema for i in range(group.num_columns)]
    assert [column.path for column in column_encodings(table)] == paths


def test_hidden_values_do_not_decide_encodings() -> None:
    values = pa.array([f"v{i}" for i in range(100)])
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 98, 99, 100], pa.int32()), values, mask=pa.array([True, False, False])
    )
    shown = pa.array([None, ["v98"], ["v99"]], pa.list_(pa.string()))
    assert column_encodings(pa.table({"c": hidden})) == column_encodings(pa.table({"c": shown}))


def test_two_leaves_with_one_dotted_path_are_plain() -> None:
    table = pa.table({"a.b": pa.array(["x", "x"]), "a": pa.array([{"b": 1}, {"b": 2}])})
    assert [(c.path, c.dictionary, c.encoding) for c in column_encodings(table)] == [("a.b", False, "PLAIN")]
    encode_shard(lambda: [table], serializer_of(column_encodings(table), 8), Compression(codec="none", level=None))


@pytest.mark.parametrize(
    ("logical_bytes", "records", "expected"),
    [(0, 10, 65_536), (150, 1, 65_536), (1_700 * 10_000, 10_000, 16_384), (100 << 20, 1, 1), (33 << 20, 1, 1), (1 << 30, 64, 2)],
)  # fmt: skip
def test_row_groups_keep_a_moderate_size(logical_bytes: int, records: int, expected: int) -> None:
    assert row_group_records(logical_bytes, records) == expected


@settings(max_examples=60, deadline=None)
@given(tables(max_rows=6))
def test_whatever_is_encoded_reads_back(table: Any) -> None:
    schema = record_schema(table.schema)
    columns = [to_physical(table.column(field.name), field) for field in schema.fields]
    payload = pa.table(columns, schema=physical_schema(schema))
    serializer = serializer_of(column_encodings(payload), 4)
    data = encode_shard(lambda: [payload], serializer, Compression(codec="zstd", level=3))
    again = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
    encoder = RowEncoder(schema)
    assert encoder.encode(again).rows.to_pylist() == encoder.encode(payload).rows.to_pylist()
    assert data == encode_shard(lambda: [payload], serializer, Compression(codec="zstd", level=3))


def test_shards_have_page_checksums_and_neither_statistics_nor_an_arrow_schema() -> None:
    table = pa.table({"a": pa.array(range(100)), "b": pa.array(["x"] * 100)})
    data = encode_shard(lambda: [table], serializer_of(column_encodings(table), 64), Compression(codec="zstd", level=3))
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    assert metadata.metadata is None
    assert metadata.num_row_groups == 2
    assert not any(metadata.row_group(g).column(c).is_stats_set for g in range(2) for c in range(2))
    broken = bytearray(data)
    broken[60] ^= 1
    with pytest.raises(OSError, match="CRC"):
        pq.read_table(pa.BufferReader(bytes(broken)), page_checksum_verification=True)


def test_index_parts_are_cut_where_they_grow_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_index, "PART_RECORDS", 10)
    members = members_of([(f"{i:03d}", "s", "1", bytes(32), "train") for i in range(25)])
    numbers = np.arange(25, dtype=np.uint32)
    parts = put_parts(MemoryStore(), index_table(members.sample_ids, members.digests, numbers, numbers))
    assert [part.records for part in parts] == [6, 6, 6, 7]
    assert [part.last_sample_id for part in parts] == ["005", "011", "017", "024"]


def test_staged_records_are_the_same_in_memory_and_spilled(tmp_path: Path) -> None:
    batches = [
        Prepared(
            members=members_of([(f"{i}-{j}", "s", "1", bytes(32), "train") for j in range(3)]),
            leaves=np.zeros((3, 32), np.uint8),
            lengths=np.ones(3, np.int64),
            tokens=np.zeros(3, np.int64),
            payload=pa.table({"v": [i, i, i]}),
        )
        for i in range(4)
    ]
    kept, spilled = stage(batches, tmp_path, 1 << 20), stage(batches, tmp_path, 0)
    assert list(tmp_path.iterdir())
    assert [piece.to_pydict() for piece in kept.pieces] == [piece.to_pydict() for piece in spilled.pieces]
    assert (kept.records, kept.starts.tolist()) == (12, spilled.starts.tolist())


def test_results_come_in_order_and_few_are_under_way() -> None:
    taken: list[int] = []

    def items() -> Any:
        for i in range(20):
            taken.append(i)
            yield i

    with ThreadPoolExecutor(3) as pool:
        results = in_order(pool, lambda i: i * i, items(), 4)
        assert next(results) == 0
        assert len(taken) == 4
        assert list(results) == [i * i for i in range(1, 20)]


def test_sizes_bound_what_is_under_way_and_one_that_is_too_large_goes_alone() -> None:
    taken: list[int] = []

    def items() -> Any:
        for size in (1, 1, 3, 9, 1, 2, 2):
            taken.append(size)
            yield size

    with ThreadPoolExecutor(3) as pool:
        results = in_order(pool, lambda size: size, items(), 4, lambda size: size)
        seen = [(next(results), len(taken)) for _ in range(7)]
    assert seen == [(1, 3), (1, 3), (3, 4), (9, 4), (1, 7), (2, 7), (2, 7)]


def test_only_a_provenance_by_the_same_key_about_the_same_root_counts() -> None:
    store, ours, other = MemoryStore(), generate("ours"), generate("other")
    root, another = "sha256:" + "1" * 64, "sha256:" + "2" * 64
    build = Build(snapshot=another, parameters={}, sources=[], publication="p", started_on="a", finished_on="b")
    attach(store, root, provenance(root, "data", build, other))
    attach(store, root, provenance(another, "data", build, ours))
    attach(store, root, b"no envelope")
    assert not has_provenance(store, root, ours)
    attach(store, root, provenance(root, "data", build, ours))
    assert has_provenance(store, root, ours)


def test_very_many_files_are_named_by_one_digest() -> None:
    build = Build(
        snapshot="sha256:" + "0" * 64,
        parameters={},
        sources=[(f"{i}.parquet", "sha256:" + "3" * 64) for i in range(10_001)],
        publication="p",
        started_on="a",
        finished_on="b",
    )
    assert len(provenance("sha256:" + "1" * 64, "data", build, generate("k"))) < 4096

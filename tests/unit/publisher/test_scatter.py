"""Where a shard's records are in the pieces, and the row groups that are gathered from them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from publisher.columns import column_encodings
from publisher.encode import encode_shard, reserved_fields, serializer_of
from publisher.gather import row_groups, some_records
from publisher.pieces import Pieces
from publisher.scatter import Cuts, Scattered, numbers_of, scatter
from publisher.stage import Prepared, Staged, stage
from publisher.tuple_fields import constant
from shardrel.membership.columns import STORED_FIELDS, Members
from shardrel.records.release import Compression, Sharding

RECORDS = 400
SHARDING = Sharding(function="tuple-splitmix64.v1", shards=7, seed=3, sort_key="member-tuple.v1")
ZSTD = Compression(codec="zstd", level=3)


def prepared(first: int, count: int) -> Prepared:
    """Records of one file, whose origin is held once."""
    rng = np.random.default_rng(first)
    ids = pa.array([f"id-{first + i:04d}" for i in range(count)])
    members = Members(
        sample_ids=ids,
        source_ids=constant(f"file-{first // 100}", count),
        source_versions=constant("v" * (first % 3 + 1), count),
        splits=constant("train", count),
        digests=rng.integers(0, 256, (count, 32), dtype=np.uint8),
    )
    facts = np.arange(first, first + count, dtype=np.int64)
    payload = pa.table({"v": facts, "text": pa.array([f"text {i}" * (i % 5) for i in facts])})
    leaves = rng.integers(0, 256, (count, 32), dtype=np.uint8)
    return Prepared(members=members, leaves=leaves, lengths=facts, tokens=facts, payload=payload)


def staged_in(folder: Path, memory_bytes: int) -> Staged:
    return stage([prepared(first, 40) for first in range(0, RECORDS, 40)], folder, memory_bytes)


def scattered_of(staged: Staged, shards: int = 7) -> tuple[Scattered, Any]:
    sharding = Sharding(function="tuple-splitmix64.v1", shards=shards, seed=3, sort_key="member-tuple.v1")
    numbers = numbers_of(staged, sharding)
    with ThreadPoolExecutor(2) as pool:
        return Scattered(pieces=staged.pieces, cuts=tuple(scatter(staged, numbers, pool))), numbers


@pytest.mark.parametrize("memory_bytes", [1 << 20, 0, 4000])
@pytest.mark.parametrize("group_records", [1, 16, 1000])
def test_row_groups_hold_the_records_of_a_shard_in_the_order_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, memory_bytes: int, group_records: int
) -> None:
    monkeypatch.setattr("publisher.pieces.PIECE_BYTES", 1)
    monkeypatch.setattr("publisher.pieces.SPILL_BYTES", 3000)
    staged = staged_in(tmp_path, memory_bytes)
    assert len(staged.pieces) > 2
    scattered, numbers = scattered_of(staged)
    for shard in range(SHARDING.shards):
        records = np.flatnonzero(numbers == shard)
        for order in (records, records[::-1].copy(), np.random.default_rng(shard).permutation(records)):
            groups = list(row_groups(scattered, shard, order, group_records))
            assert [group.num_rows for group in groups[:-1]] == [group_records] * (len(groups) - 1)
            rows = pa.concat_tables([group.select(["v"]) for group in groups])
            assert rows.column("v").to_pylist() == order.tolist()
            some = some_records(scattered, shard, order, np.arange(0, len(order), 3))
            assert some.column("v").to_pylist() == order[::3].tolist()
            assert [some.schema.field(name) for name in STORED_FIELDS] == reserved_fields()


def test_a_shard_that_no_record_fell_into_is_one_empty_row_group(tmp_path: Path) -> None:
    scattered, numbers = scattered_of(staged_in(tmp_path, 1 << 20), shards=5000)
    empty = next(shard for shard in range(5000) if shard not in numbers)
    groups = list(row_groups(scattered, empty, np.zeros(0, np.int64), 16))
    assert [group.num_rows for group in groups] == [0]
    assert [groups[0].schema.field(name) for name in STORED_FIELDS] == reserved_fields()


def test_spilled_pieces_leave_one_file_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("publisher.pieces.SPILL_BYTES", 3000)
    staged = staged_in(tmp_path, 0)
    scattered, _ = scattered_of(staged)
    assert len(list(tmp_path.iterdir())) == len(scattered.pieces) > 2


def plain_table(table: Any) -> Any:
    for number, field in enumerate(reserved_fields()):
        table = table.set_column(number, field, table.column(number).cast(pa.string()))
    return table


@pytest.mark.parametrize("distinct", [1, 3, 300, 5000])
def test_origins_with_a_dictionary_have_the_bytes_of_plain_ones(distinct: int) -> None:
    count = 20_000
    rng = np.random.default_rng(distinct)
    indices = pa.array(rng.integers(0, distinct, count).astype(np.int32))
    names = pa.array([f"{i:05d}-" + "n" * (i % 7) for i in range(distinct + 5)])
    folded = pa.DictionaryArray.from_arrays(indices, names)
    ids = pa.array([f"id-{i:06d}" for i in range(count)])
    table = pa.table([ids, folded, folded, constant("train", count), ids], names=[*STORED_FIELDS, "text"])
    pieces = Pieces(Path(), 1 << 30)
    pieces.add(table)
    pieces.flush()
    cuts = Cuts(shards=np.zeros(1, np.uint16), starts=np.array([0, count]), rows=None)
    groups = list(row_groups(Scattered(pieces=pieces, cuts=[cuts]), 0, np.arange(count), 8192))
    serializer = serializer_of(column_encodings(plain_table(table)), 8192)
    assert any(pa.types.is_dictionary(field.type) for field in groups[0].schema)
    plain = [plain_table(table)]
    assert encode_shard(lambda: groups, serializer, ZSTD) == encode_shard(lambda: plain, serializer, ZSTD)


def test_strings_that_two_columns_share_are_picked_for_both_and_others_for_themselves(tmp_path: Path) -> None:
    ids, other = pa.array([f"id-{i}" for i in range(6)]), pa.array(list("uvwxyz"))
    origin = constant("train", 6)
    table = pa.table([ids, origin, origin, origin, other, ids, ids.slice(0)], names=[*STORED_FIELDS, "a", "b", "c"])
    pieces = Pieces(tmp_path, 1 << 20)
    pieces.add(table)
    pieces.flush()
    rows = np.array([4, 1, 3], np.uint32)
    cuts = Cuts(shards=np.zeros(1, np.uint16), starts=np.array([0, 3]), rows=rows)
    (part,) = Scattered(pieces=pieces, cuts=[cuts]).parts(0)
    assert part.equals(table.take(pa.array(rows)))
    assert part.schema == table.schema

"""Batches hold exactly the samples that the order names, on every topology."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardrel.data import ledger
from shardrel.data.batches import Seat, StepBatch, batches
from shardrel.data.cache import ShardCache
from shardrel.data.columns import RowViews, StoredColumn
from shardrel.data.decoded import DecodedCache, ShardEntry
from shardrel.data.forms import form_of
from shardrel.data.order import SampleOrder, block_at, block_end
from shardrel.data.plan import effective_split
from shardrel.data.reader import ShardReader
from shardrel.data.shards import count_split, open_shard, select_fields, shard_descriptor
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.errors import ErrorCode, IntegrityError, InvalidInputError
from shardrel.records.schema import RecordSchema
from shardrel.store.layout import object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get, get_record
from tests.support.training import TrainingWorld, training_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TrainingWorld:
    return training_world(MemoryStore(), tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def schema(world: TrainingWorld) -> RecordSchema:
    return get_record(world.store, world.release.objects.record_schema, RecordSchema)


def stored_table(world: TrainingWorld, number: int) -> Any:
    """A shard as any Parquet reader sees it."""
    return pq.read_table(pa.BufferReader(get(world.store, shard_descriptor(world.release.shards[number]))))


def expected_texts(world: TrainingWorld, split: str | None) -> list[list[str]]:
    """Texts of the split, by shard."""
    tables = [stored_table(world, number) for number in range(len(world.release.shards))]
    return [
        [
            text
            for text, its_split in zip(table["text"].to_pylist(), table["_shardrel_split"].to_pylist(), strict=True)
            if split in (None, its_split)
        ]
        for table in tables
    ]


def order_of(texts: list[list[str]]) -> SampleOrder:
    return SampleOrder(sizes=tuple(len(shard) for shard in texts), seed=5, block_shards=2)


def some_steps(
    world: TrainingWorld,
    schema: RecordSchema,
    folder: Path,
    split: str | None,
    *,
    rank: int,
    world_size: int,
    keep: int,
) -> list[StepBatch]:
    """The steps of an epoch and one more."""
    fields = select_fields(schema, ("text", "number"))
    order = order_of(expected_texts(world, split))
    cache = DecodedCache(ShardCache(folder, world.store))
    entries = [ShardEntry(shard=shard, schema=schema) for shard in world.release.shards]
    reader = ShardReader(cache, entries, fields, effective_split(world.release, split), keep=keep)
    seat = Seat(rank=rank, world_size=world_size)
    steps = batches(reader, order, ledger.genesis(world.root), global_batch=7, seat=seat)
    found = [next(steps) for _ in range(order.epoch_samples // 7 + 2)]
    reader.close()
    return found


@pytest.mark.parametrize("split", [None, "test", "train"])
@pytest.mark.parametrize(("world_size", "keep"), [(1, 1), (3, 8), (9, 2)])
def test_the_ranks_together_get_the_samples_of_the_order_in_order(
    world: TrainingWorld, schema: RecordSchema, tmp_path: Path, split: str | None, world_size: int, keep: int
) -> None:
    texts = expected_texts(world, split)
    ranks = [
        some_steps(world, schema, tmp_path, split, rank=rank, world_size=world_size, keep=keep)
        for rank in range(world_size)
    ]
    for parts in zip(*ranks, strict=True):
        found = [text for part in parts for text in part.table["text"].to_pylist()]
        assert found == [texts[shard][index] for shard, index in parts[0].samples.tolist()]
        assert sum(part.share for part in parts) == pytest.approx(1)
        rows = [bytes(row.tolist()).decode() for part in parts for row in part.ragged("text").rows()]
        views = [bytes(row.tolist()).decode() for part in parts for row in part.views("text")]
        assert rows == views == found
        assert len({part.after for part in parts}) == 1
    epoch = sorted(text for step in ranks[0] for text in step.table["text"].to_pylist() if step.before.epoch == 0)
    if world_size == 1:
        assert epoch == sorted(text for shard in texts for text in shard)


def test_the_ledger_of_the_steps_is_the_one_that_sizes_and_seed_give(
    world: TrainingWorld, schema: RecordSchema, tmp_path: Path
) -> None:
    steps = some_steps(world, schema, tmp_path, "train", rank=1, world_size=2, keep=3)
    order = order_of(expected_texts(world, "train"))
    assert steps[-1].after == ledger.replay(ledger.genesis(world.root), order, 7, len(steps))


def test_shards_that_come_next_are_fetched_before_they_are_asked_for(
    world: TrainingWorld, schema: RecordSchema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardrel.data.batches.STRETCH_ROWS", 1)
    fetched = {object_key(shard.digest): threading.Event() for shard in world.release.shards}
    rules = [
        Rule(operation="read", prefix=key, fault=Fault.HOOK, hook=lambda key: fetched[key].set(), times=None)
        for key in fetched
    ]
    entries = [ShardEntry(shard=shard, schema=schema) for shard in world.release.shards]
    cache = DecodedCache(ShardCache(tmp_path, FaultyStore(world.store, rules)))
    order = SampleOrder(sizes=tuple(shard.records for shard in world.release.shards), seed=5, block_shards=1)
    reader = ShardReader(cache, entries, select_fields(schema, ("text",)), None, keep=3)
    first, after = (block_at(order, 0, start)[0] for start in (0, block_end(order, 0, 0)))
    one = ledger.genesis(world.root)
    batch = next(batches(reader, order, one, global_batch=1, seat=Seat(rank=0, world_size=1)))
    assert [shard for shard, _ in batch.samples.tolist()] == [first] != [after]
    assert fetched[object_key(world.release.shards[after].digest)].wait(30)
    reader.close()


def test_views_lie_in_the_cache_and_a_batch_in_what_was_gathered(
    world: TrainingWorld, schema: RecordSchema, tmp_path: Path
) -> None:
    one, *_ = some_steps(world, schema, tmp_path, None, rank=0, world_size=1, keep=9)
    again = one.views("text")
    assert [view.data_ptr() for view in again] == [view.data_ptr() for view in one.views("text")]
    assert one.tensor("number").data_ptr() == one.tensor("number").data_ptr()


def test_what_has_no_views_is_refused(world: TrainingWorld, schema: RecordSchema, tmp_path: Path) -> None:
    (batch, *_) = some_steps(world, schema, tmp_path, None, rank=0, world_size=1, keep=3)
    numbers = [int(view) for view in batch.views("number")]
    assert numbers == batch.table["number"].to_pylist() == batch.tensor("number").tolist()
    column = StoredColumn(form=form_of(schema.fields[0]), array=pa.array([]), starts=None, data=None, valid=None)
    with pytest.raises(InvalidInputError) as caught:
        RowViews([column], np.zeros(1, np.int64), np.zeros(1, np.int64))
    assert caught.value.code == ErrorCode.INPUT_COLUMN_TYPE


def test_a_shard_is_decoded_by_its_logical_types(world: TrainingWorld, schema: RecordSchema) -> None:
    shard = world.release.shards[0]
    data = get(world.store, shard_descriptor(shard))
    opened = open_shard(data, shard, select_fields(schema, ("number",)), "test")
    assert opened.table.schema.names == ["number"]
    assert opened.table.schema.field("number").type == pa.int64()
    assert opened.rows is not None
    assert len(opened.rows) == count_split(data, shard, "test")
    assert count_split(data, shard, None) == shard.records


def test_a_column_that_the_release_lacks_is_refused(schema: RecordSchema) -> None:
    with pytest.raises(InvalidInputError) as caught:
        select_fields(schema, ("absent",))
    assert caught.value.code == ErrorCode.INPUT_NO_SUCH_COLUMN


def rewritten(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, write_page_checksum=True, store_schema=False)
    return bytes(sink.getvalue())


def test_other_rows_types_or_bytes_than_declared_are_refused(world: TrainingWorld, schema: RecordSchema) -> None:
    shard = world.release.shards[0]
    fields = select_fields(schema, ("number",))
    table = stored_table(world, 0)
    as_text = table.set_column(table.schema.get_field_index("number"), "number", table["number"].cast(pa.string()))
    cases = {
        b"not parquet" * 20: ErrorCode.PARQUET_STRUCTURE,
        rewritten(table.slice(1)): ErrorCode.RECORD_COUNT,
        rewritten(as_text): ErrorCode.RECORD_SCHEMA,
        rewritten(table.drop_columns(["number"])): ErrorCode.PARQUET_STRUCTURE,
    }
    for data, code in cases.items():
        with pytest.raises(IntegrityError) as caught:
            open_shard(data, shard, fields, None)
        assert caught.value.code == code

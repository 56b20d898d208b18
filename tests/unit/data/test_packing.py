"""Packed rows hold the samples of the one order, whatever the topology and wherever a job stopped."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from shardrel.data import ledger
from shardrel.data.batches import Seat
from shardrel.data.cache import ShardCache
from shardrel.data.dataset import PackedDataset, StepLoader, StepSource
from shardrel.data.decoded import DecodedCache, ShardEntry
from shardrel.data.order import BatchSpan, SampleOrder, samples_of
from shardrel.data.packing import PackedBatch, PackPlan, pack, packed_batches
from shardrel.data.reader import ShardReader
from shardrel.data.shards import select_fields
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.checkpoint import Cut
from shardrel.records.schema import RecordSchema
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_record
from tests.support.training import TrainingWorld, training_world

PLAN = PackPlan(column="text", rows=5, length=64, pad=255)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 30), max_size=40),
    rows=st.integers(1, 6),
    length=st.integers(1, 20),
)
def test_rows_are_filled_in_order_without_overlap_until_one_fits_nowhere(
    lengths: list[int], rows: int, length: int
) -> None:
    packing = pack(np.array(lengths, np.int64), rows, length)
    taken = [[False] * length for _ in range(rows)]
    for row, start, size in zip(packing.row, packing.start, packing.length, strict=True):
        assert not any(taken[row][start : start + size])
        taken[row][start : start + size] = [True] * int(size)
    used = len(packing.row)
    assert packing.length.tolist() == [min(size, length) for size in lengths[:used]]
    if used < len(lengths):
        assert all(length - sum(row) < min(lengths[used], length) for row in taken)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TrainingWorld:
    return training_world(MemoryStore(), tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def order(world: TrainingWorld) -> SampleOrder:
    return SampleOrder(sizes=tuple(shard.records for shard in world.release.shards), seed=3, block_shards=2)


@pytest.fixture(scope="module")
def texts(world: TrainingWorld, order: SampleOrder, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The texts of one epoch in their order."""
    reader = a_reader(world, tmp_path_factory.mktemp("cache"))
    samples = samples_of(order, BatchSpan(epoch=0, start=0, count=order.epoch_samples))
    found = [view.tobytes() for view in reader.take(samples).views("text", 0, len(samples), np.asarray)]
    reader.close()
    return found


def a_reader(world: TrainingWorld, folder: Path, column: str = "text") -> ShardReader:
    schema = get_record(world.store, world.release.objects.record_schema, RecordSchema)
    entries = [ShardEntry(shard=shard, schema=schema) for shard in world.release.shards]
    cache = DecodedCache(ShardCache(folder, world.store))
    return ShardReader(cache, entries, select_fields(schema, (column,)), None, keep=5)


def test_a_rank_without_samples_has_elements_of_the_same_type(
    world: TrainingWorld, order: SampleOrder, tmp_path: Path
) -> None:
    """The last step of an epoch may fill the rows of the first ranks alone."""
    plan = PackPlan(column="text", rows=2, length=1 << 16)
    batches = []
    for rank in range(2):
        reader = a_reader(world, tmp_path)
        seat = Seat(rank=rank, world_size=2)
        batches.append(next(packed_batches(reader, order, ledger.genesis(world.root), plan=plan, seat=seat)))
        reader.close()
    first, second = batches
    assert (first.size, second.size) == (len(first.samples), 0)
    assert first.values.dtype == second.values.dtype


@pytest.fixture(scope="module")
def take(
    world: TrainingWorld, order: SampleOrder, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int, Cut, int], list[list[PackedBatch]]]:
    """The next steps of every rank."""

    def steps(world_size: int, cut: Cut, count: int) -> list[list[PackedBatch]]:
        ranks = []
        for rank in range(world_size):
            reader = a_reader(world, tmp_path_factory.mktemp("cache"))
            given_ = packed_batches(reader, order, cut, plan=PLAN, seat=Seat(rank=rank, world_size=world_size))
            ranks.append([batch for _, batch in zip(range(count), given_, strict=False)])
            reader.close()
        return ranks

    return steps


def contents(batches: list[PackedBatch]) -> list[bytes]:
    """The packed samples of a step's rows, each by its segment."""
    found = []
    for batch in batches:
        for values, segments in zip(batch.values.numpy(), batch.segments.numpy(), strict=True):
            found += [values[segments == number].tobytes() for number in range(1, int(segments.max()) + 1)]
            assert (values[segments == 0] == PLAN.pad).all()
    return found


def test_every_sample_of_an_epoch_is_in_a_row_once(
    world: TrainingWorld, texts: list[bytes], take: Callable[[int, Cut, int], list[list[PackedBatch]]]
) -> None:
    (steps,) = take(1, ledger.genesis(world.root), 30)
    epoch = [step for step in steps if step.before.epoch == 0]
    assert steps[len(epoch)].before.epoch == 1
    assert sorted(contents(epoch)) == sorted(text[: PLAN.length] for text in texts if text)
    for step in epoch:
        kept = step.positions.numpy()[step.segments.numpy() > 0]
        assert len(kept) == step.elements[1] == step.elements[0]


@pytest.mark.parametrize("world_size", [2, 3, 7])
def test_any_topology_and_any_stop_give_the_same_rows(
    world: TrainingWorld, take: Callable[[int, Cut, int], list[list[PackedBatch]]], world_size: int
) -> None:
    (whole,) = take(1, ledger.genesis(world.root), 9)
    first = take(world_size, ledger.genesis(world.root), 4)
    second = take(world_size + 1, first[0][-1].after, 5)
    for number, one in enumerate(whole):
        ranks = [rank[number] for rank in first] if number < 4 else [rank[number - 4] for rank in second]
        rows = np.concatenate([rank.values.numpy().reshape(-1, PLAN.length) for rank in ranks])
        assert np.array_equal(rows, one.values.numpy())
        assert {rank.after for rank in ranks} == {one.after}
        assert sum(rank.share for rank in ranks) == pytest.approx(1)


@pytest.fixture(scope="module")
def packed(
    world: TrainingWorld, order: SampleOrder, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Cut], PackedDataset]:
    """Nine steps of rank 1 of 2, from the beginning or the rest of them."""
    schema = get_record(world.store, world.release.objects.record_schema, RecordSchema)
    source = StepSource(
        entries=tuple(ShardEntry(shard=shard, schema=schema) for shard in world.release.shards),
        fields=select_fields(schema, ("text",)),
        split=None,
        order=order,
        global_batch=1,
    )
    cache = ShardCache(tmp_path_factory.mktemp("cache"), world.store)

    def dataset(cut: Cut) -> PackedDataset:
        return PackedDataset(source, cache, cut, PLAN, rank=1, world_size=2, steps=9 - cut.step)

    return dataset


Seen = tuple[Cut, list[list[int]], list[list[int]], list[list[int]], tuple[int, int]]


def seen(batch: PackedBatch) -> Seen:
    numbers = (batch.values.tolist(), batch.segments.tolist(), batch.positions.tolist())
    return batch.after, *numbers, batch.elements


@pytest.fixture(scope="module")
def nine(world: TrainingWorld, packed: Callable[[Cut], PackedDataset]) -> list[Seen]:
    return [seen(batch) for batch in packed(ledger.genesis(world.root))]


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_pack_the_same_steps_in_order(
    world: TrainingWorld, packed: Callable[[Cut], PackedDataset], nine: list[Seen], workers: int
) -> None:
    assert len(nine) == 9
    found = DataLoader(packed(ledger.genesis(world.root)), batch_size=None, num_workers=workers)
    assert [seen(batch) for batch in found] == nine


@pytest.mark.filterwarnings("ignore:'.*' is deprecated:UserWarning")  # torchdata 0.11 asks torch for what it lost
@pytest.mark.parametrize(("workers", "stop"), [(0, 4), (2, 4), (2, 5)])
def test_a_stateful_loader_goes_on_packing_behind_what_was_handed_out(
    world: TrainingWorld, packed: Callable[[Cut], PackedDataset], nine: list[Seen], workers: int, stop: int
) -> None:
    first = StatefulDataLoader(packed(ledger.genesis(world.root)), batch_size=None, num_workers=workers)
    found = [seen(batch) for _, batch in zip(range(stop), first, strict=False)]
    second = StatefulDataLoader(packed(ledger.genesis(world.root)), batch_size=None, num_workers=workers)
    second.load_state_dict(first.state_dict())
    assert found + [seen(batch) for batch in second] == nine


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize(("before", "after"), [(0, 2), (3, 0), (2, 3)])
def test_a_loader_goes_on_packing_by_position_with_other_workers(
    world: TrainingWorld, packed: Callable[[Cut], PackedDataset], nine: list[Seen], before: int, after: int
) -> None:
    first = StepLoader(packed, ledger.genesis(world.root), workers=before)
    found = [seen(batch) for _, batch in zip(range(4), first, strict=False)]
    second = StepLoader(packed, ledger.genesis(world.root), workers=after)
    second.load_state_dict(first.state_dict())
    assert found + [seen(batch) for batch in second] == nine


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_a_worker_that_cannot_pack_says_why(world: TrainingWorld, order: SampleOrder, tmp_path: Path) -> None:
    schema = get_record(world.store, world.release.objects.record_schema, RecordSchema)
    source = StepSource(
        entries=tuple(ShardEntry(shard=shard, schema=schema) for shard in world.release.shards),
        fields=select_fields(schema, ("number",)),
        split=None,
        order=order,
        global_batch=1,
    )
    plan = PackPlan(column="number", rows=2, length=8)
    cache = ShardCache(tmp_path, world.store)
    begin = ledger.genesis(world.root)
    loader = StepLoader(lambda cut: PackedDataset(source, cache, cut, plan), begin, workers=2)
    with pytest.raises(InvalidInputError) as caught:
        next(iter(loader))
    assert (caught.value.code, caught.value.context) == (ErrorCode.INPUT_COLUMN_TYPE, {"column": "number"})


def test_what_cannot_be_packed_is_refused(world: TrainingWorld, order: SampleOrder, tmp_path: Path) -> None:
    for plan, code in (
        (PackPlan(column="number", rows=2, length=8), ErrorCode.INPUT_COLUMN_TYPE),
        (PackPlan(column="number", rows=0, length=8), ErrorCode.INPUT_INVALID),
    ):
        reader = a_reader(world, tmp_path, "number")
        with pytest.raises(InvalidInputError) as caught:
            next(packed_batches(reader, order, ledger.genesis(world.root), plan=plan, seat=Seat(rank=0, world_size=1)))
        assert caught.value.code == code
        reader.close()

"""Steps through DataLoader workers are the steps of one process, and any state goes on exactly."""

from collections.abc import Callable
from typing import Any

import pytest
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from shardrel.data import ledger
from shardrel.data.batches import StepBatch
from shardrel.data.cache import ShardCache
from shardrel.data.dataset import StepDataset, StepLoader, StepSource
from shardrel.data.decoded import ShardEntry
from shardrel.data.order import SampleOrder
from shardrel.data.shards import select_fields
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.checkpoint import Cut
from shardrel.records.schema import RecordSchema
from shardrel.store.local import LocalStore
from shardrel.store.objects import get_record
from tests.support.training import TrainingWorld, training_world

STEPS = 12

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:'.*' is deprecated:UserWarning"),  # torchdata 0.11 asks torch for what it lost
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TrainingWorld:
    folder = tmp_path_factory.mktemp("source")
    return training_world(LocalStore(str(folder / "store")), folder)


@pytest.fixture(scope="module")
def make(world: TrainingWorld, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., StepDataset]:
    cache = ShardCache(tmp_path_factory.mktemp("cache"), world.store)
    schema = get_record(world.store, world.release.objects.record_schema, RecordSchema)
    sizes = tuple(shard.records for shard in world.release.shards)
    source = StepSource(
        entries=tuple(ShardEntry(shard=shard, schema=schema) for shard in world.release.shards),
        fields=select_fields(schema, ("text", "number")),
        split=None,
        order=SampleOrder(sizes=sizes, seed=3, block_shards=2),
        global_batch=7,
    )

    def dataset(cut: Cut, **options: Any) -> StepDataset:
        return StepDataset(source, cache, cut, **{"steps": STEPS - cut.step, **options})

    return dataset


def seen(batch: StepBatch) -> tuple[int, list[int], list[str], Cut]:
    return batch.step, batch.tensor("number").tolist(), batch.table["text"].to_pylist(), batch.after


@pytest.fixture(scope="module")
def expected(world: TrainingWorld, make: Callable[..., StepDataset]) -> list[Any]:
    return [seen(batch) for batch in make(ledger.genesis(world.root))]


def test_one_process_takes_all_steps(expected: list[Any]) -> None:
    assert [step for step, *_ in expected] == list(range(STEPS))
    assert all(
        f"{number:05d}:" in text
        for _, numbers, texts, _ in expected
        for number, text in zip(numbers, texts, strict=True)
    )


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_make_the_same_steps_in_order(
    world: TrainingWorld, make: Callable[..., StepDataset], expected: list[Any], workers: int
) -> None:
    found = DataLoader(make(ledger.genesis(world.root)), batch_size=None, num_workers=workers)
    assert [seen(batch) for batch in found] == expected


@pytest.mark.parametrize(("workers", "stop"), [(0, 5), (2, 5), (2, 6)])
def test_a_stateful_loader_goes_on_behind_what_was_handed_out(
    world: TrainingWorld, make: Callable[..., StepDataset], expected: list[Any], workers: int, stop: int
) -> None:
    def loader() -> Any:
        return StatefulDataLoader(make(ledger.genesis(world.root)), batch_size=None, num_workers=workers)

    first, found = loader(), []
    for batch in first:
        found.append(seen(batch))
        if len(found) == stop:
            break
    second = loader()
    second.load_state_dict(first.state_dict())
    assert found + [seen(batch) for batch in second] == expected


@pytest.mark.parametrize(("before", "after"), [(0, 2), (3, 0), (2, 3)])
def test_a_step_loader_goes_on_with_other_workers(
    world: TrainingWorld, make: Callable[..., StepDataset], expected: list[Any], before: int, after: int
) -> None:
    first = StepLoader(make, ledger.genesis(world.root), workers=before)
    found = [seen(batch) for _, batch in zip(range(5), first, strict=False)]
    second = StepLoader(make, ledger.genesis(world.root), workers=after)
    second.load_state_dict(first.state_dict())
    assert found + [seen(batch) for batch in second] == expected


def test_a_state_of_something_else_is_refused(world: TrainingWorld, make: Callable[..., StepDataset]) -> None:
    for state in ({}, {"step": 1, "epoch": 0}):
        with pytest.raises(InvalidInputError) as caught:
            make(ledger.genesis(world.root)).load_state_dict(state)
        assert caught.value.code == ErrorCode.INPUT_INVALID

"""A run on a mix: every rank pins and verifies all inputs, and any topology consumes the one sequence."""

from pathlib import Path

import pytest

from shardrel.checkpoint.group import Group
from shardrel.data import ledger
from shardrel.data.cache import ShardCache
from shardrel.data.mix import MixedOrder, consumed_of
from shardrel.drills.ranks import run_ranks
from shardrel.errors import ErrorCode
from shardrel.gate import runs
from shardrel.records.checkpoint import Cut
from shardrel.records.transition import MixedAlias
from shardrel.store.layout import object_key
from shardrel.store.local import LocalStore
from shardrel.train.admission import join
from shardrel.train.pin import PinnedRun, TrainPlan
from shardrel.train.session import resume, steps
from tests.support.ranks import all_good, failures
from tests.support.training import TrainingWorld, another_release, training_world

PLAN = TrainPlan(columns=("text", "number"), global_batch=10, seed=1, block_shards=2, split="train")
WEIGHTS = {"prod": 700_000, "more": 300_000}
FIRST = 1000


@pytest.fixture
def world(tmp_path: Path) -> TrainingWorld:
    world = training_world(LocalStore(str(tmp_path / "store")), tmp_path, records=60, shards=4)
    another_release(world, tmp_path, "more", records=20, first=FIRST, shards=3)
    inputs = [MixedAlias(alias=name, weight=weight) for name, weight in WEIGHTS.items()]
    runs.start(world.store, world.dataset, "prod", world.call(), run_id="mixed", inputs=inputs)
    return world


def pinned(world: TrainingWorld, folder: Path, group: Group) -> PinnedRun:
    return join(group, world.store, ShardCache(folder, world.store), dataset=world.dataset, run="mixed", plan=PLAN)


def trained(world: TrainingWorld, folder: Path, world_size: int, cut: Cut | None, count: int) -> tuple[Cut, list[int]]:
    """The cut behind some more steps, and the numbers of the samples in global order."""

    def part(group: Group) -> list[tuple[Cut, list[int]]]:
        pin = pinned(world, folder, group)
        begin = cut or resume(group, world.store, pin, {}, signer=world.signer).cut
        given = steps(group, ShardCache(folder, world.store), pin, begin)
        return [(batch.after, batch.tensor("number").tolist()) for _, batch in zip(range(count), given, strict=False)]

    ranks = all_good(run_ranks(world_size, part))
    cuts = {tuple(after for after, _ in rank) for rank in ranks}
    assert len(cuts) == 1
    numbers = [number for step in range(count) for rank in ranks for number in rank[step][1]]
    return ranks[0][-1][0], numbers


def test_shares_are_exact_and_each_input_goes_through_its_own_epochs(world: TrainingWorld, tmp_path: Path) -> None:
    cut, numbers = trained(world, tmp_path / "cache", 2, None, 103)
    assert cut.cursor == len(numbers) == 1030
    more = [number for number in numbers if number >= FIRST]
    assert len(more) == 309
    size = 16  # four of five records are of the split
    epochs = [more[at : at + size] for at in range(0, len(more) - size, size)]
    assert all(sorted(epoch) == sorted(epochs[0]) for epoch in epochs)
    assert epochs[0] != epochs[1]
    assert cut.epoch == min(721 // 48, 309 // 16)


def test_any_sequence_of_world_sizes_consumes_what_one_process_does(world: TrainingWorld, tmp_path: Path) -> None:
    whole, expected = trained(world, tmp_path / "cache", 1, None, 12)
    middle, first = trained(world, tmp_path / "cache", 3, None, 5)
    end, second = trained(world, tmp_path / "cache", 4, middle, 7)
    assert (end, first + second) == (whole, expected)

    pin = all_good(run_ranks(1, lambda group: pinned(world, tmp_path / "cache", group)))[0]
    assert isinstance(pin.order, MixedOrder)
    assert consumed_of(pin.order, 120)[0] + consumed_of(pin.order, 120)[1] == 120
    assert whole == ledger.replay(ledger.genesis(pin.identity), pin.order, PLAN.global_batch, 12)
    assert pin.identity != pin.root


def test_a_shard_of_any_input_that_is_damaged_ends_all_ranks(world: TrainingWorld, tmp_path: Path) -> None:
    pin = all_good(run_ranks(1, lambda group: pinned(world, tmp_path / "cache", group)))[0]
    path = tmp_path / "store" / object_key(pin.inputs[1].release.shards[0].digest)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    found = failures(run_ranks(2, lambda group: pinned(world, tmp_path / f"cache-{group.rank}", group)))
    assert {failure.code for failure in found} == {ErrorCode.STORAGE_DIGEST}
    assert {tuple(failure.context["ranks"]) for failure in found} == {("0",)}

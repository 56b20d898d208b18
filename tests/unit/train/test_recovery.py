"""Recovery and another world size change who reads what, and nothing else: the store's requests are watched."""

from pathlib import Path

import pytest
import torch

from shardrel.checkpoint.group import Group
from shardrel.data.cache import ShardCache
from shardrel.digest import raw_digest
from shardrel.drills.ranks import run_ranks
from shardrel.drills.recording_store import RecordingStore
from shardrel.gate.view import read_gate
from shardrel.records.checkpoint import Cut
from shardrel.store.layout import object_key
from shardrel.store.memory import MemoryStore
from shardrel.train.admission import join
from shardrel.train.pin import TrainPlan
from shardrel.train.session import Part, checkpoint, resume, steps
from shardrel.train.watch import Watch
from tests.support.ranks import all_good
from tests.support.training import TrainingWorld, move_alias, training_world

PLAN = TrainPlan(columns=("text",), global_batch=8)


@pytest.fixture
def world(tmp_path: Path) -> TrainingWorld:
    return training_world(MemoryStore(), tmp_path, records=60)


def start(world: TrainingWorld, folder: Path, world_size: int, count: int) -> tuple[list[tuple[str, str]], Cut]:
    """A start of the job on hosts with empty caches: its requests, and where it ended."""
    recording = RecordingStore(world.store)

    def part(group: Group) -> Cut:
        parts: dict[str, Part] = {"model": torch.nn.Flatten()}
        cache = ShardCache(folder / f"{world_size}-{group.rank}", recording)
        signer = world.signer if group.rank == 0 else None
        pin = join(group, recording, cache, dataset=world.dataset, run=world.run, plan=PLAN, watch=Watch())
        cut = resume(group, recording, pin, parts, signer=signer).cut
        for _, batch in zip(range(count), steps(group, cache, pin, cut), strict=False):
            cut = batch.after
        checkpoint(group, recording, pin, parts, cut, signer=signer)
        return cut

    cuts = all_good(run_ranks(world_size, part))
    assert len(set(cuts)) == 1
    return recording.requests, cuts[0]


def test_every_start_reads_its_own_root_and_nothing_of_what_the_alias_points_to(
    world: TrainingWorld, tmp_path: Path
) -> None:
    first, _ = start(world, tmp_path, 1, 3)
    others = move_alias(world, tmp_path)
    assert read_gate(world.store, world.dataset).body.aliases["prod"].generation == 2
    second, _ = start(world, tmp_path, 3, 4)
    third, cut = start(world, tmp_path, 2, 2)
    assert (cut.step, cut.cursor) == (9, 60 + 8)  # the eighth step ends the epoch of 60

    shards = {object_key(shard.digest) for shard in world.release.shards}
    for asked in (first, second, third):
        reads = [key for operation, key in asked if operation == "read"]
        assert shards <= set(reads)
        assert not [key for _, key in asked for digest in others if raw_digest(digest).hex() in key]
        assert {operation for operation, _ in asked} <= {"read", "create", "swap"}
    assert {key for _, key in second} & shards == {key for _, key in third} & shards == shards

"""A job's second checkpoint writes what has changed, and relies on nothing that may not be there."""

from pathlib import Path
from typing import Any

import pytest
import torch

from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.objects import ObjectReader
from shardrel.checkpoint.preflight import object_problems, read_commit, read_manifest
from shardrel.data.cache import ShardCache
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.records.checkpoint import CheckpointManifest
from shardrel.store.layout import object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Store
from shardrel.train.admission import join
from shardrel.train.pin import TrainPlan
from shardrel.train.session import Resumed, checkpoint, resume
from tests.support.checkpoints import Sizes, damage
from tests.support.training import TrainingWorld, training_world

GROUP = SoloGroup()
LARGE = 1_200_000


class Part:
    """A large tensor that stays, and one that changes."""

    def __init__(self) -> None:
        self.still = torch.arange(LARGE // 4, dtype=torch.float32)
        self.moving = torch.zeros(LARGE // 4)

    def state_dict(self) -> dict[str, Any]:
        return {"still": self.still, "moving": self.moving}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        self.still, self.moving = state["still"], state["moving"]


class Job:
    """One process of one rank."""

    def __init__(self, world: TrainingWorld, folder: Path) -> None:
        self.world, self.part = world, Part()
        plan = TrainPlan(columns=("text",), global_batch=8, split="train")
        cache = ShardCache(folder / "cache", world.store)
        self.pin = join(GROUP, world.store, cache, dataset=world.dataset, run=world.run, plan=plan)
        self.cut = self.resume().cut

    def resume(self) -> Resumed:
        return resume(GROUP, self.world.store, self.pin, {"part": self.part}, signer=self.world.signer)

    def save(self, store: Store | None = None) -> int:
        """Large objects that a checkpoint wrote."""
        recording = Sizes(store or self.world.store)
        checkpoint(GROUP, recording, self.pin, {"part": self.part}, self.cut, signer=self.world.signer)
        return sum(size >= LARGE for size in recording.sizes)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def job(store: MemoryStore, tmp_path: Path) -> Job:
    return Job(training_world(store, tmp_path, records=20), tmp_path)


def manifest(job: Job, generation: int) -> CheckpointManifest:
    installed = read_commit(job.world.store, job.world.run, generation)
    assert installed is not None
    return read_manifest(job.world.store, installed.record)


def objects(job: Job, generation: int) -> list[str]:
    return [region.object.digest for entry in manifest(job, generation).tensors for region in entry.regions]


def test_what_stays_is_not_written_again_and_has_the_same_bytes(job: Job, tmp_path: Path) -> None:
    assert job.save() == 2
    job.part.moving += 1
    assert job.save() == 1
    other = Job(job.world, tmp_path)
    assert other.save() == 2
    assert objects(job, 1) == objects(other, 2)
    assert torch.equal(other.part.moving, torch.ones(LARGE // 4))


def test_after_a_resume_everything_is_written_again(job: Job, store: MemoryStore) -> None:
    job.save()
    job.part.moving += 1
    job.save()
    [still] = set(objects(job, 0)) & set(objects(job, 1))
    damage(store, object_key(still), lambda _: None)
    with pytest.raises(RunFailedError) as raised:
        job.resume()
    assert raised.value.code == ErrorCode.CHECKPOINT_MISSING
    assert job.save() == 2
    assert object_problems(ObjectReader(store), manifest(job, 2)) == []
    assert job.resume().generation == 2


def test_what_a_failed_save_wrote_is_not_relied_on(job: Job, store: MemoryStore) -> None:
    job.save()
    job.part.moving += 1
    fault = Rule(operation="create", prefix="runs/", fault=Fault.FAIL_AFTER)
    with pytest.raises(RunFailedError):
        job.save(FaultyStore(store, [fault]))
    job.save()
    job.part.moving += 1
    assert job.save() == 1
    newest = job.resume()
    assert newest.passed_over == ()
    assert torch.equal(job.part.moving, torch.full((LARGE // 4,), 2.0))

"""A plain torch loop over a pinned run: stopped anywhere, it goes on as if it never was."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from shardrel.checkpoint.group import SoloGroup
from shardrel.data.cache import ShardCache
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.gate import runs
from shardrel.records.checkpoint import Cut
from shardrel.store.memory import MemoryStore
from shardrel.train.admission import join
from shardrel.train.gradients import mean_loss, reduce_gradients
from shardrel.train.pin import PinnedRun, TrainPlan
from shardrel.train.session import Part, Resumed, TorchRandom, checkpoint, resume, steps
from tests.support.training import TrainingWorld, training_world

PLAN = TrainPlan(columns=("text",), global_batch=8, seed=1, block_shards=2, split="train")
GROUP = SoloGroup()


@pytest.fixture
def world(tmp_path: Path) -> TrainingWorld:
    return training_world(MemoryStore(), tmp_path, records=40)


class Job:
    """One process: parts, a pin and what it consumed."""

    def __init__(self, world: TrainingWorld, folder: Path, run: str, plan: TrainPlan = PLAN) -> None:
        torch.manual_seed(3)
        self.world = world
        self.cache = ShardCache(folder / "cache", world.store)
        self.model = torch.nn.Sequential(torch.nn.Embedding(257, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2)
        self.parts: dict[str, Part] = {
            "model": self.model,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "random": TorchRandom(),
        }
        self.pin: PinnedRun = join(GROUP, world.store, self.cache, dataset=world.dataset, run=run, plan=plan)
        self.texts: list[str] = []

    def resume(self) -> Resumed:
        return resume(GROUP, self.world.store, self.pin, self.parts, signer=self.world.signer)

    def train(self, cut: Cut, count: int) -> Cut:
        for _, batch in zip(range(count), steps(GROUP, self.cache, self.pin, cut), strict=False):
            self.texts += batch.table["text"].to_pylist()
            self.optimizer.zero_grad()
            loss = self.model(batch.ragged("text").padded(8, 256)).square().mean()
            loss.backward()
            reduce_gradients(GROUP, self.model.parameters(), batch)
            self.optimizer.step()
            self.scheduler.step()
            assert mean_loss(GROUP, loss, batch) == pytest.approx(float(loss.detach()))
            cut = batch.after
        return cut

    def checkpoint(self, cut: Cut) -> int:
        return checkpoint(GROUP, self.world.store, self.pin, self.parts, cut, signer=self.world.signer).generation

    def weights(self) -> dict[str, Any]:
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}


@pytest.mark.parametrize("stop", [1, 4, 5, 8])
def test_a_stopped_job_ends_with_the_bits_of_an_uninterrupted_one(
    world: TrainingWorld, tmp_path: Path, stop: int
) -> None:
    runs.start(world.store, world.dataset, "prod", world.call(), run_id="whole")
    whole = Job(world, tmp_path, "whole")
    end = whole.train(whole.resume().cut, 9)

    first = Job(world, tmp_path, world.run)
    begin = first.resume()
    assert (begin.generation, begin.cut.step) == (None, 0)
    first.checkpoint(first.train(begin.cut, stop))

    second = Job(world, tmp_path, world.run)
    again = second.resume()
    assert (again.generation, again.cut.step, again.world_size) == (0, stop, 1)
    assert second.train(again.cut, 9 - stop) == end
    assert first.texts + second.texts == whole.texts
    for name, tensor in whole.weights().items():
        assert torch.equal(second.weights()[name], tensor)


def test_steps_end_before_one_that_counts_from_the_runs_beginning(world: TrainingWorld, tmp_path: Path) -> None:
    job = Job(world, tmp_path, world.run)
    cut = job.train(job.resume().cut, 2)

    def left(until: int) -> list[int]:
        return [batch.step for batch in steps(GROUP, job.cache, job.pin, cut, until=until)]

    assert [left(until) for until in (5, 2, 1)] == [[2, 3, 4], [], []]


def test_a_resume_with_another_order_is_refused_and_touches_nothing(world: TrainingWorld, tmp_path: Path) -> None:
    job = Job(world, tmp_path, world.run)
    job.checkpoint(job.train(job.resume().cut, 2))
    for change in ({"seed": 2}, {"block_shards": 3}, {"split": None}, {"seed": 2, "split": "test"}):
        other = Job(world, tmp_path, world.run, dataclasses.replace(PLAN, **change))
        before = other.weights()
        with pytest.raises(RunFailedError) as caught:
            other.resume()
        assert caught.value.code == ErrorCode.CHECKPOINT_IDENTITY
        told = caught.value.context
        assert told["settings"] == list(change)
        assert told["saved"] == [str(getattr(PLAN, name)) for name in change]
        assert told["wanted"] == [str(value) if value is not None else "none" for value in change.values()]
        assert all(torch.equal(tensor, before[name]) for name, tensor in other.weights().items())


def test_another_global_batch_goes_on_at_the_same_sample(world: TrainingWorld, tmp_path: Path) -> None:
    job = Job(world, tmp_path, world.run)
    job.checkpoint(job.train(job.resume().cut, 2))
    other = Job(world, tmp_path, world.run, dataclasses.replace(PLAN, global_batch=5))
    other.train(other.resume().cut, 3)
    runs.start(world.store, world.dataset, "prod", world.call(), run_id="whole")
    whole = Job(world, tmp_path, "whole")
    whole.train(whole.resume().cut, 4)
    assert job.texts + other.texts == whole.texts[: 2 * 8 + 3 * 5]


def test_a_part_that_the_checkpoint_has_not_is_refused(world: TrainingWorld, tmp_path: Path) -> None:
    job = Job(world, tmp_path, world.run)
    job.checkpoint(job.resume().cut)
    other = Job(world, tmp_path, world.run)
    other.parts["ema"] = torch.nn.Linear(1, 1)
    with pytest.raises(RunFailedError) as caught:
        other.resume()
    assert caught.value.code == ErrorCode.CHECKPOINT_MISSING

"""Joining a run: all ranks pin one root, or all fail before step 0 with one code."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardrel.checkpoint.group import Group
from shardrel.data.cache import ShardCache
from shardrel.digest import raw_digest
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.drills.ranks import run_ranks
from shardrel.drills.recording_store import RecordingStore
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.gate import fence, runs
from shardrel.gate.view import read_gate
from shardrel.store.layout import object_key, run_key
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Store
from shardrel.train.admission import join
from shardrel.train.pin import PinnedRun, TrainPlan
from tests.support.ranks import all_good, failures
from tests.support.runs import a_deletion
from tests.support.training import TrainingWorld, training_world

PLAN = TrainPlan(columns=("text", "number"), global_batch=8, seed=1, block_shards=2)


@pytest.fixture
def world(tmp_path: Path) -> TrainingWorld:
    return training_world(MemoryStore(), tmp_path)


def join_on(
    world: TrainingWorld,
    folder: Path,
    world_size: int,
    *,
    plan_of: Callable[[int], TrainPlan] = lambda rank: PLAN,
    store_of: Callable[[int], Store | None] = lambda rank: None,
    run: str | None = None,
    root_of: Callable[[int], str | None] = lambda rank: None,
    run_of: Callable[[int], str | None] = lambda rank: None,
) -> list[PinnedRun | BaseException]:
    """Every rank joins with a cache of its own."""

    def part(group: Group) -> PinnedRun:
        store = store_of(group.rank) or world.store
        cache = ShardCache(folder / f"cache-{group.rank}", store)
        name = run_of(group.rank) or run or world.run
        told = root_of(group.rank)
        return join(group, store, cache, dataset=world.dataset, run=name, plan=plan_of(group.rank), root=told)

    return run_ranks(world_size, part)


@pytest.mark.parametrize("world_size", [1, 2, 7])
def test_all_ranks_pin_the_same_root_and_order(world: TrainingWorld, tmp_path: Path, world_size: int) -> None:
    pins = all_good(join_on(world, tmp_path, world_size))
    assert {pin.root for pin in pins} == {world.root}
    assert {pin.order.sizes for pin in pins} == {tuple(shard.records for shard in world.release.shards)}


@pytest.mark.parametrize(
    ("change", "code", "facts"),
    [
        ({"columns": ("txt",)}, ErrorCode.INPUT_NO_SUCH_COLUMN, {"column": "txt", "columns": ["text", "number"]}),
        ({"split": "dev"}, ErrorCode.INPUT_INVALID, {"split": "dev", "splits": ["test", "train"]}),
    ],
)
def test_a_name_that_is_not_there_is_told_with_those_that_are(
    world: TrainingWorld, tmp_path: Path, change: dict[str, Any], code: ErrorCode, facts: dict[str, Any]
) -> None:
    plan = dataclasses.replace(PLAN, **change)
    for failure in failures(join_on(world, tmp_path, 2, plan_of=lambda rank: plan)):
        assert (failure.code, failure.exit_status) == (code, 2)
        assert facts.items() <= failure.context.items()


def test_a_run_that_is_not_there_is_named_on_every_rank(world: TrainingWorld, tmp_path: Path) -> None:
    told = failures(join_on(world, tmp_path, 2, run="no-run"))
    assert {(one.code, one.context["run"], "no-run" in one.message) for one in told} == {
        (ErrorCode.GATE_NO_RUN, "no-run", True)
    }


def test_another_root_than_the_runs_is_told_with_both(world: TrainingWorld, tmp_path: Path) -> None:
    other = "sha256:" + "0" * 64
    for failure in failures(join_on(world, tmp_path, 2, root_of=lambda rank: other if rank else None)):
        assert failure.code == ErrorCode.RUN_ROOT_DISAGREEMENT
        assert {"told": other, "root": world.root, "ranks": ["1"]}.items() <= failure.context.items()


def test_a_split_has_its_own_sizes(world: TrainingWorld, tmp_path: Path) -> None:
    plan = dataclasses.replace(PLAN, split="test")
    pins = all_good(join_on(world, tmp_path, 3, plan_of=lambda rank: plan))
    assert {pin.order.epoch_samples for pin in pins} == {12}


def test_the_alias_is_read_by_nobody(world: TrainingWorld, tmp_path: Path) -> None:
    """The run keeps its root when the alias moves on, and no listing is asked for."""
    recording = RecordingStore(world.store)
    all_good(join_on(world, tmp_path, 2, store_of=lambda rank: recording))
    assert {operation for operation, _ in recording.requests} <= {"read"}
    gates = [key for _, key in recording.requests if key.startswith("gates/")]
    assert set(gates) == {f"gates/{world.dataset}/state"}


def corrupt(world: TrainingWorld, number: int) -> FaultyStore:
    """A view of the store in which one shard's bytes are changed."""
    key = object_key(world.release.shards[number].digest)
    return FaultyStore(world.store, [Rule(operation="read", prefix=key, fault=Fault.FLIPPED, times=None)])


def test_a_rank_with_a_corrupted_shard_fails_every_rank_alike(world: TrainingWorld, tmp_path: Path) -> None:
    bad = corrupt(world, 1)
    results = failures(join_on(world, tmp_path, 3, store_of=lambda rank: bad if rank == 1 else None))
    assert {failure.code for failure in results} == {ErrorCode.STORAGE_DIGEST}
    assert all(failure.context["ranks"] == ["1"] for failure in results)


def test_a_corrupted_cache_entry_is_replaced_and_counted(world: TrainingWorld, tmp_path: Path) -> None:
    all_good(join_on(world, tmp_path, 1))
    name = raw_digest(world.release.shards[2].digest).hex()
    entry = tmp_path / "cache-0" / "sha256" / name[:2] / name
    entry.write_bytes(entry.read_bytes()[:-1])
    all_good(join_on(world, tmp_path, 1))
    assert len(list((tmp_path / "cache-0" / "quarantine").iterdir())) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 2},
        {"global_batch": 9},
        {"split": "train"},
        {"block_shards": 3},
        {"columns": ("text",)},
        {"on_closed": "go-on"},
    ],
)
def test_a_rank_with_other_settings_fails_every_rank(
    world: TrainingWorld, tmp_path: Path, change: dict[str, Any]
) -> None:
    other = dataclasses.replace(PLAN, **change)
    results = failures(join_on(world, tmp_path, 3, plan_of=lambda rank: other if rank == 2 else PLAN))
    assert {failure.code for failure in results} == {ErrorCode.RUN_ROOT_DISAGREEMENT}
    assert all(failure.context["ranks"] == ["2"] for failure in results)


def test_a_rank_that_never_comes_ends_the_others_in_time(world: TrainingWorld, tmp_path: Path) -> None:
    def part(group: Group) -> PinnedRun:
        if group.rank == 1:
            raise SystemError("gone")
        return join(
            group,
            world.store,
            ShardCache(tmp_path / str(group.rank), world.store),
            dataset=world.dataset,
            run=world.run,
            plan=PLAN,
        )

    results = run_ranks(3, part, timeout=0.2)
    for rank in (0, 2):
        failure = results[rank]
        assert isinstance(failure, RunFailedError)
        assert (failure.code, failure.context["ranks"]) == (ErrorCode.RUN_TIMEOUT, ["1"])


@pytest.mark.parametrize(
    ("plan", "code"),
    [
        (dataclasses.replace(PLAN, columns=("nothing",)), ErrorCode.INPUT_NO_SUCH_COLUMN),
        (dataclasses.replace(PLAN, split="nothing"), ErrorCode.INPUT_INVALID),
    ],
)
def test_a_plan_that_the_release_can_not_serve_is_refused(
    world: TrainingWorld, tmp_path: Path, plan: TrainPlan, code: ErrorCode
) -> None:
    results = failures(join_on(world, tmp_path, 2, plan_of=lambda rank: plan))
    assert {failure.code for failure in results} == {code}


def test_an_unknown_and_an_ended_run_are_refused(world: TrainingWorld, tmp_path: Path) -> None:
    assert {f.code for f in failures(join_on(world, tmp_path, 2, run="other"))} == {ErrorCode.GATE_NO_RUN}
    runs.finish(world.store, world.dataset, world.run, world.call())
    assert {f.code for f in failures(join_on(world, tmp_path, 2))} == {ErrorCode.GATE_RUN_ENDED}


def test_a_run_whose_permit_a_fence_closed_is_not_joined(world: TrainingWorld, tmp_path: Path) -> None:
    fence.advance(world.store, world.dataset, "tombstones", [a_deletion(1)], world.call())
    results = failures(join_on(world, tmp_path, 2))
    assert {failure.code for failure in results} == {ErrorCode.PERMIT_CLOSED}
    assert all("tombstones" in failure.message for failure in results)


def test_a_missing_run_record_is_made_again_from_the_history(tmp_path: Path) -> None:
    store = MemoryStore()
    world = training_world(store, tmp_path)
    store._versions.pop(run_key(world.run))
    assert all_good(join_on(world, tmp_path, 1))[0].root == world.root
    assert read_gate(store, world.dataset).body.runs[world.run].root == world.root


def test_a_rank_that_was_told_another_root_fails_every_rank(world: TrainingWorld, tmp_path: Path) -> None:
    other = "sha256:" + "0" * 64
    assert all_good(join_on(world, tmp_path, 2, root_of=lambda rank: world.root))[0].root == world.root
    results = failures(join_on(world, tmp_path, 3, root_of=lambda rank: other if rank == 1 else world.root))
    assert {failure.code for failure in results} == {ErrorCode.RUN_ROOT_DISAGREEMENT}
    assert all(failure.context["ranks"] == ["1"] for failure in results)


def test_a_rank_that_was_told_another_run_fails_every_rank(world: TrainingWorld, tmp_path: Path) -> None:
    results = failures(join_on(world, tmp_path, 3, run_of=lambda rank: "run-2" if rank == 0 else None))
    assert {failure.code for failure in results} == {ErrorCode.RUN_ROOT_DISAGREEMENT}
    assert all(failure.context["ranks"] == ["0"] for failure in results)


def test_a_rank_of_another_version_fails_every_rank(world: TrainingWorld, tmp_path: Path) -> None:
    def part(group: Group) -> PinnedRun:
        if group.rank == 2:
            group.exchange(b'{"protocol":"train.v0"}')
        cache = ShardCache(tmp_path / str(group.rank), world.store)
        return join(group, world.store, cache, dataset=world.dataset, run=world.run, plan=PLAN)

    results = failures(run_ranks(3, part, timeout=1.0)[:2])
    assert {failure.code for failure in results} == {ErrorCode.RUN_VERSION}
    assert all(failure.context["ranks"] == ["2"] for failure in results)

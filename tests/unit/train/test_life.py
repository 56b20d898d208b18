"""A fence moves while a run trains: the next checkpoint is refused, and the plan says what then; the root stays."""

import dataclasses
import io
import json
from pathlib import Path

import pytest
import torch

from shardrel.checkpoint.group import Group, SoloGroup, on_coordinator
from shardrel.checkpoint.save import Saved
from shardrel.data.cache import ShardCache
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.drills.ranks import run_ranks
from shardrel.drills.recording_store import RecordingStore
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.gate import fence, runs
from shardrel.gate.attestations import attach
from shardrel.gate.view import read_gate
from shardrel.records.checkpoint import Cut
from shardrel.records.report import REPORT_PREDICATE, STATEMENT_PAYLOAD
from shardrel.store.memory import MemoryStore
from shardrel.train.admission import join
from shardrel.train.life import NotSaved
from shardrel.train.pin import ClosedPolicy, PinnedRun, TrainPlan
from shardrel.train.session import checkpoint, steps
from shardrel.train.watch import Watch
from shardrel.trust.envelope import seal
from shardrel.trust.statement import statement
from tests.support.gates import a_report
from tests.support.ranks import failures
from tests.support.runs import a_deletion
from tests.support.training import TrainingWorld, training_world

GROUP = SoloGroup()


class Job:
    """A job of one rank whose requests and events are written down."""

    def __init__(self, folder: Path, policy: ClosedPolicy, run: str | None = None) -> None:
        self.world = training_world(MemoryStore(), folder, records=40)
        self.store = RecordingStore(self.world.store)
        self.events = io.StringIO()
        self.cache = ShardCache(folder / "cache", self.store)
        plan = TrainPlan(columns=("text",), global_batch=8, on_closed=policy)
        watch = Watch(self.events)
        self.pin: PinnedRun = join(
            GROUP, self.store, self.cache, dataset=self.world.dataset, run=self.world.run, plan=plan, watch=watch
        )
        self.steps = steps(GROUP, self.cache, self.pin, _genesis(self.pin))

    def step(self) -> Cut:
        return next(self.steps).after

    def checkpoint(self, cut: Cut) -> Saved | NotSaved:
        parts = {"model": torch.nn.Linear(2, 2)}
        return checkpoint(GROUP, self.store, self.pin, parts, cut, signer=self.world.signer)

    def said(self, event: str) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in self.events.getvalue().splitlines()]
        return [line for line in lines if line["event"] == event]


def _genesis(pin: PinnedRun) -> Cut:
    from shardrel.data import ledger

    return ledger.genesis(pin.root)


def delete_something(world: TrainingWorld, sequence: int = 1) -> None:
    fence.advance(world.store, world.dataset, "tombstones", [a_deletion(sequence)], world.call())


def check_again(world: TrainingWorld, hits: int = 0) -> None:
    """The verifier's report at the fences of now."""
    report = a_report(read_gate(world.store, world.dataset).body, world.root, hits=hits)
    said = statement(world.root, REPORT_PREDICATE, report, "root")
    attach(world.store, world.root, seal(said, STATEMENT_PAYLOAD, [world.keys["verifier"]]))


def seen(world: TrainingWorld) -> runs.RunView:
    return runs.show(world.store, world.dataset, world.run)


def refusal(world: TrainingWorld) -> str | None:
    verdict = runs.renewal(world.store, world.dataset, seen(world))
    return None if verdict is None else verdict.code


def test_a_job_stops_where_it_was_told_to_and_says_why(tmp_path: Path) -> None:
    job = Job(tmp_path, "stop")
    assert isinstance(job.checkpoint(job.step()), Saved)
    assert refusal(job.world) is None
    delete_something(job.world)
    with pytest.raises(RunFailedError) as failed:
        job.checkpoint(job.step())
    assert failed.value.code == ErrorCode.PERMIT_CLOSED
    assert "tombstones" in failed.value.message
    assert [one["code"] for one in job.said("checkpoint-refused")] == [ErrorCode.PERMIT_CLOSED]
    assert job.said("failed")[-1]["code"] == ErrorCode.PERMIT_CLOSED
    assert job.pin.watch.ready()[0] is False
    view = seen(job.world)
    assert (view.state, view.closed.by, view.head.step) == ("closed", "tombstones", 1)  # type: ignore[union-attr]
    assert refusal(job.world) == ErrorCode.PERMIT_RECHECK


@pytest.mark.parametrize("policy", ["renew", "go-on"])
def test_a_job_renews_its_permit_once_its_root_has_been_checked_again(tmp_path: Path, policy: ClosedPolicy) -> None:
    job = Job(tmp_path, policy)
    delete_something(job.world)
    check_again(job.world)
    assert refusal(job.world) is None
    saved = job.checkpoint(job.step())
    assert isinstance(saved, Saved)
    assert (seen(job.world).state, seen(job.world).root) == ("open", job.world.root)
    assert [one["event"] for one in map(json.loads, job.events.getvalue().splitlines())][-3:] == [
        "checkpoint-refused", "renewed", "checkpoint",
    ]  # fmt: skip
    assert job.pin.watch.figures.get("shardrel_permit_open", root=job.world.root) == 1


def test_without_a_re_check_one_policy_stops_and_the_other_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    stopping, going_on = Job(tmp_path / "a", "renew"), Job(tmp_path / "b", "go-on")
    for job in (stopping, going_on):
        delete_something(job.world)
    with pytest.raises(RunFailedError) as failed:
        stopping.checkpoint(stopping.step())
    assert failed.value.code == ErrorCode.PERMIT_RECHECK

    assert going_on.checkpoint(going_on.step()) == NotSaved(code=ErrorCode.PERMIT_RECHECK, step=1)
    assert going_on.pin.watch.ready()[0] is True
    cut = going_on.step()  # it trains on
    assert seen(going_on.world).head is None
    check_again(going_on.world)
    assert going_on.checkpoint(cut) == Saved(generation=0, commit=seen(going_on.world).head.commit, step=2)  # type: ignore[union-attr]


@pytest.mark.parametrize("policy", ["stop", "renew", "go-on"])
def test_a_hit_ends_the_run_under_each_policy_and_a_new_one_begins_anew(tmp_path: Path, policy: ClosedPolicy) -> None:
    job = Job(tmp_path, policy)
    job.checkpoint(job.step())
    delete_something(job.world)
    check_again(job.world, hits=1)
    with pytest.raises(RunFailedError) as failed:
        job.checkpoint(job.step())
    assert failed.value.code == (ErrorCode.PERMIT_CLOSED if policy == "stop" else ErrorCode.PERMIT_HIT)
    assert refusal(job.world) == ErrorCode.PERMIT_HIT
    world = job.world
    runs.cancel(world.store, world.dataset, world.run, world.call())
    assert seen(world).state == "cancelled"
    with pytest.raises(RunFailedError) as ended:
        join(GROUP, world.store, job.cache, dataset=world.dataset, run=world.run, plan=job.pin.plan)
    assert ended.value.code == ErrorCode.GATE_RUN_ENDED


def test_a_fence_that_moves_while_a_checkpoint_is_written_costs_no_checkpoint(tmp_path: Path) -> None:
    """The commit record is installed, its admission refused; after the renewal it is admitted, and the next one too."""
    job = Job(tmp_path, "renew")

    def advance(_: str) -> None:
        delete_something(job.world)
        check_again(job.world)

    job.store.inner = FaultyStore(
        job.world.store, [Rule(operation="create", prefix="runs/", fault=Fault.HOOK, hook=advance)]
    )
    saved = job.checkpoint(job.step())
    assert isinstance(saved, Saved)
    assert (saved.generation, saved.step) == (1, 1)
    assert seen(job.world).head.generation == 1  # type: ignore[union-attr]
    assert [one["code"] for one in job.said("checkpoint-refused")] == [ErrorCode.PERMIT_CLOSED]


@pytest.mark.parametrize(("policy", "checked"), [("go-on", False), ("renew", True), ("renew", False)])
def test_all_ranks_learn_the_same(tmp_path: Path, policy: ClosedPolicy, checked: bool) -> None:
    world = training_world(MemoryStore(), tmp_path, records=40)
    plan = TrainPlan(columns=("text",), global_batch=8, on_closed=policy)

    def part(group: Group) -> Saved | NotSaved:
        cache = ShardCache(tmp_path / f"cache-{group.rank}", world.store)
        pin = join(group, world.store, cache, dataset=world.dataset, run=world.run, plan=plan, watch=Watch())
        cut = next(steps(group, cache, pin, _genesis(pin))).after

        def advance() -> bytes:
            delete_something(world)
            if checked:
                check_again(world)
            return b""

        on_coordinator(group, advance)
        signer = world.signer if group.rank == 0 else None
        return checkpoint(group, world.store, pin, {"model": torch.nn.Flatten()}, cut, signer=signer)

    results = run_ranks(3, part)
    if (policy, checked) == ("renew", False):
        assert {(failure.code, *failure.context["ranks"]) for failure in failures(results)} == {
            (ErrorCode.PERMIT_RECHECK, "0")
        }
    else:
        assert [type(one) for one in results] == [Saved if checked else NotSaved] * 3


def test_no_policy_ever_reads_another_shard_or_the_alias(tmp_path: Path) -> None:
    """Requests of a job whose permit is closed and renewed twice: its own shards alone, and no alias."""
    job = Job(tmp_path, "go-on")
    for turn in (1, 2):
        delete_something(job.world, turn)
        job.checkpoint(job.step())
        check_again(job.world)
        job.checkpoint(job.step())
    record = dataclasses.asdict(seen(job.world))
    assert (record["root"], record["generation"]) == (job.world.root, 1)
    shards = {shard.digest for shard in job.pin.release.shards}
    tables = {key for operation, key in job.store.requests if operation == "read" and _is_shard(job, key)}
    assert len(tables) == len(shards)
    assert not [key for _, key in job.store.requests if "alias" in key]


def _is_shard(job: Job, key: str) -> bool:
    stored = job.world.store.read(key, max_bytes=1 << 30) if key.startswith("objects/") else None  # type: ignore[arg-type]
    return stored is not None and stored.data[:4] == b"PAR1"

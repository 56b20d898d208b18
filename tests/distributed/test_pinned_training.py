"""Real jobs on a pinned run: killed, resumed at another world size, refused when one rank's bytes are wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from shardrel.data import ledger
from shardrel.data.order import SampleOrder
from shardrel.errors import ErrorCode
from shardrel.gate import runs
from shardrel.gate.view import read_gate
from shardrel.store.layout import object_key
from shardrel.store.local import LocalStore
from shardrel.trust.keyring import save
from tests.support.torchrun import ROOT, Job, torchrun
from tests.support.training import TrainingWorld, split_sizes, training_world

pytestmark = pytest.mark.distributed

SCRIPT = ROOT / "examples" / "train_bytes.py"
BATCH = 8


@pytest.fixture
def world(tmp_path: Path) -> TrainingWorld:
    world = training_world(LocalStore(str(tmp_path / "store")), tmp_path, records=40, shards=5)
    save(tmp_path / "keys", world.signer)
    return world


def job(folder: Path, ranks: int, run: str, *arguments: str) -> Job:
    settings = {
        "--store": folder / "store",
        "--dataset": "data",
        "--keys": folder / "keys",
        "--cache": folder / "cache",
        "--run-id": run,
        "--steps": 9,
        "--checkpoint-every": 3,
        "--global-batch": BATCH,
        "--timeout": 30,
        "--samples-out": folder / f"{run}.jsonl",
    }
    words = [str(word) for pair in settings.items() for word in pair]
    return torchrun(SCRIPT, ranks, [*words, *arguments])


def consumed(folder: Path, run: str) -> dict[int, dict[str, Any]]:
    """What each step consumed; of a step that was repeated, the last time."""
    lines = [json.loads(line) for line in (folder / f"{run}.jsonl").read_text().splitlines()]
    return {line["step"]: line for line in lines}


def test_a_killed_run_that_resumes_on_three_ranks_consumes_what_an_uninterrupted_one_does(
    world: TrainingWorld, tmp_path: Path
) -> None:
    runs.start(world.store, world.dataset, "prod", world.call(), run_id="reference")
    reference = job(tmp_path, 0, "reference")
    assert reference.returncode == 0, reference.stderr
    joined = reference.of("joined")[0]
    assert (joined["split"], joined["splits"], joined["samples"]) == ("train", ["test", "train"], 32)

    killed = job(tmp_path, 2, "run-1", "--kill-rank-at", "7")
    assert killed.returncode != 0
    assert "Signal 9" in killed.stderr
    assert [one["step"] for one in killed.of("checkpoint")] == [3, 6]

    resumed = job(tmp_path, 3, "run-1")
    assert resumed.returncode == 0, resumed.stderr
    begin = resumed.of("resumed")[0]
    assert (begin["generation"], begin["step"], begin["savedBy"]) == (1, 6, 2)
    assert [one["step"] for one in resumed.of("step")] == [6, 7, 8]

    assert consumed(tmp_path, "run-1") == consumed(tmp_path, "reference")
    assert sorted(consumed(tmp_path, "run-1")) == list(range(9))
    order = SampleOrder(sizes=split_sizes(world, "train"), seed=0, block_shards=8)
    expected = ledger.replay(ledger.genesis(world.root), order, BATCH, 9).ledger
    assert consumed(tmp_path, "run-1")[8]["ledger"] == expected
    losses = {one["step"]: one["loss"] for one in reference.of("step")}
    assert {one["step"]: one["loss"] for one in resumed.of("step")} == pytest.approx(
        {step: losses[step] for step in (6, 7, 8)}, rel=1e-3
    )
    body = read_gate(world.store, world.dataset).body
    assert (body.runs["run-1"].head.generation, body.runs["run-1"].head.step) == (2, 9)  # type: ignore[union-attr]


def test_one_ranks_corrupted_shard_ends_every_rank_before_step_0(world: TrainingWorld, tmp_path: Path) -> None:
    path = tmp_path / "store" / object_key(world.release.shards[1].digest)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    failed = job(tmp_path, 2, "run-1")
    assert failed.returncode != 0
    assert {(one["rank"], one["code"]) for one in failed.of("failed")} <= {
        (0, ErrorCode.STORAGE_DIGEST),
        (1, ErrorCode.STORAGE_DIGEST),
    }
    assert all(one["ranks"] == ["1"] for one in failed.of("failed"))
    assert failed.of("failed")
    assert not failed.of("step")


def test_a_fault_of_rank_0_alone_ends_all_with_its_code_facts_and_status(world: TrainingWorld, tmp_path: Path) -> None:
    ended = job(tmp_path, 2, world.run, "--key", "nobody").of("failed")
    assert [one["rank"] for one in sorted(ended, key=lambda one: one["rank"])] == [0, 1]
    assert {(one["code"], one["exitStatus"], one["context"]["key"]) for one in ended} == {
        (ErrorCode.INPUT_KEY, 2, "nobody")
    }


def test_a_rank_that_comes_late_is_named_by_all_and_learns_it_too() -> None:
    late = torchrun(ROOT / "tests" / "distributed" / "late_rank.py", 3, [])
    assert {one["rank"] for one in late.of("failed")} == {0, 1, 2}, late.stderr
    assert {one["code"] for one in late.of("failed")} == {ErrorCode.RUN_TIMEOUT}
    assert all(one["ranks"] == ["1"] for one in late.of("failed"))

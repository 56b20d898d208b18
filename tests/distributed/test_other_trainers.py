"""Lightning and the Trainer of Hugging Face: killed or stopped, resumed at another world size, the same samples."""

import json
from pathlib import Path
from typing import Any

import pytest

from shardrel.data import ledger
from shardrel.data.order import SampleOrder
from shardrel.store.local import LocalStore
from shardrel.trust.keyring import save
from tests.support.torchrun import ROOT, Job, torchrun
from tests.support.training import TrainingWorld, split_sizes, training_world

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

BATCH = 7


@pytest.fixture
def world(tmp_path: Path) -> TrainingWorld:
    world = training_world(LocalStore(str(tmp_path / "store")), tmp_path, records=40, shards=5)
    save(tmp_path / "keys", world.signer)
    return world


def job(script: str, folder: Path, ranks: int, steps: int) -> Job:
    settings = {
        "--store": folder / "store",
        "--dataset": "data",
        "--keys": folder / "keys",
        "--cache": folder / "cache",
        "--run-id": "run-1",
        "--steps": steps,
        "--checkpoint-every": 3,
        "--global-batch": BATCH,
        "--timeout": 60,
        "--samples-out": folder / "samples.jsonl",
    }
    return torchrun(ROOT / "examples" / script, ranks, [str(word) for pair in settings.items() for word in pair])


@pytest.mark.parametrize("script", ["train_lightning.py", "train_transformers.py"])
def test_a_trainer_consumes_the_runs_order_over_a_resume_at_another_world_size(
    world: TrainingWorld, tmp_path: Path, script: str
) -> None:
    first = job(script, tmp_path, 2, 5)  # checkpoints at 3, so the resume repeats steps 3 and 4
    assert first.returncode == 0, first.stderr
    second = job(script, tmp_path, 3, 9)
    assert second.returncode == 0, second.stderr
    assert [one["step"] for one in second.of("step")] == list(range(3, 9))

    lines: list[dict[str, Any]] = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    order = SampleOrder(sizes=split_sizes(world, "train"), seed=0, block_shards=8)
    cut = ledger.genesis(world.root)
    consumed = {line["step"]: line for line in lines}
    for step in range(9):
        cut = ledger.replay(cut, order, BATCH, 1)
        assert consumed[step]["ledger"] == cut.ledger
    assert all(line == consumed[line["step"]] for line in lines)

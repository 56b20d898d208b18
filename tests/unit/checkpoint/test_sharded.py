"""Sharded states through torch.distributed.checkpoint, by real processes in a gloo group."""

import json
from pathlib import Path

import pytest

from shardrel.errors import ErrorCode
from shardrel.store.local import LocalStore
from tests.support.checkpoints import ROOT, RUN
from tests.support.gates import key
from tests.support.gloo import run_gloo
from tests.support.runs import started_run

JOBS = "tests.support.sharded_jobs"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for each in (tmp_path, tmp_path / "other"):
        started_run(LocalStore(each / "store"), ROOT, RUN)
        (each / "key.pem").write_bytes(key("admin").to_pem())
    return tmp_path


def test_every_world_size_restores_what_every_other_saved(folder: Path) -> None:
    run_gloo(f"{JOBS}:sample", 4, folder)


@pytest.mark.slow
def test_every_parallelism_comes_back_at_every_other_world_size(folder: Path) -> None:
    run_gloo(f"{JOBS}:every_pair", 6, folder, timeout=600)


def test_all_ranks_refuse_alike_and_pass_over_what_is_damaged_on_one(folder: Path) -> None:
    run_gloo(f"{JOBS}:refusals_and_fall_back", 2, folder)
    told = [json.loads((folder / f"codes-{rank}.json").read_text()) for rank in range(2)]
    assert (
        told[0]
        == told[1]
        == {
            "copies differ": ErrorCode.CHECKPOINT_REPLICA,
            "values differ": ErrorCode.CHECKPOINT_REPLICA,
            "cuts differ": ErrorCode.CHECKPOINT_CUT,
            "a value of an unknown type": ErrorCode.CHECKPOINT_STATE_TYPE,
            "a sparse tensor": ErrorCode.CHECKPOINT_STATE_TYPE,
            "a pickling planner": ErrorCode.CHECKPOINT_STATE_TYPE,
            "another shape": ErrorCode.CHECKPOINT_SCHEMA,
            "another type": ErrorCode.CHECKPOINT_SCHEMA,
            "a name that it lacks": ErrorCode.CHECKPOINT_MISSING,
        }
    )

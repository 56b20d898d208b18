"""A real process is killed at a barrier, and a fresh one recovers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shardrel.canonical import json
from shardrel.cli.drill_crash import the_programs
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.lab import child
from shardrel.lab.barrier import read_barrier
from shardrel.lab.fashion import Pins, read_table
from shardrel.lab.processes import IsolatedProcesses
from shardrel.lab.scene import DATASET, RUN, prepare
from shardrel.lab.tasks import Place, Publication, Publish, Recover, Train
from shardrel.store.local import LocalStore
from tests.support.lab import BATCH, HereAndNow
from tests.support.publishing import NOW
from tests.support.torchrun import ROOT


@pytest.fixture
def place(data: tuple[Path, Pins], tmp_path: Path) -> Place:
    """A run with the state of two steps handed over, the first of which is committed."""
    store, keys = tmp_path / "store", tmp_path / "keys"
    table = read_table(*data)
    prepare(LocalStore(store), keys, tmp_path / "source.arrow", table, the_programs(), lambda: NOW)
    place = Place(store=str(store), keys=str(keys), dataset=DATASET, run=RUN, seed=1)
    cache, handoff = str(tmp_path / "cache"), str(tmp_path / "handoff")
    HereAndNow().run("train", Train(place=place, cache=cache, handoff=handoff, batches=2, global_batch=BATCH))
    child.publish(publish(place, tmp_path, 1, watched=False))
    return place


def publish(place: Place, folder: Path, step: int, *, watched: bool) -> Publish:
    handoff = str(folder / "handoff" / str(step))
    one = Publication(store=place.store, attempt=f"step-{step}", handoff=handoff, world_size=1)
    return Publish(place=place, publications=(one,), watched=watched)


def test_the_publisher_dies_by_signal_9_and_a_fresh_process_helps_what_it_installed(
    place: Place, tmp_path: Path
) -> None:
    processes = IsolatedProcesses(environment=dict(os.environ), logs=tmp_path)
    task = publish(place, tmp_path, 2, watched=True)
    events, ended = processes.kill_at("publisher", task, read_barrier("commit-after-rename"))
    assert (ended.status, ended.answer) == (-9, None)
    assert [event.number for event in events] == list(range(len(events)))
    assert (events[-1].step, events[-1].place) == ("rename", "commit")

    choice = processes.run("recovery", Recover(place=place)).choice
    assert (choice.scanned, choice.hinted, choice.hint) == ((0, 1), 0, "stale")
    assert (choice.generation, choice.step, choice.helped) == (1, 2, True)


def test_a_barrier_that_is_never_reached_is_a_failure_that_leaves_no_process(place: Place, tmp_path: Path) -> None:
    processes = IsolatedProcesses(environment=dict(os.environ), logs=tmp_path)
    task = publish(place, tmp_path, 2, watched=True)
    with pytest.raises(RunFailedError) as failed:
        processes.kill_at("publisher", task, read_barrier("store-999-before"))
    assert failed.value.code == ErrorCode.RUN_RANK_FAILED


@pytest.mark.slow
def test_a_publisher_that_waits_too_long_says_where_and_ends(place: Place, tmp_path: Path) -> None:
    task = json.encode(publish(place, tmp_path, 2, watched=True)) + b"\n"
    line = [sys.executable, "-m", "shardrel.lab.child", "15"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(line, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(task)
        process.stdin.flush()
        said = process.stderr.read()
        assert process.wait(60) == 1
    assert b"Timeout" in said
    assert b"in _ask" in said

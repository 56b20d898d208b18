"""No wait of a drill is without an end, and none leaves a process behind."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from shardrel.canonical import json
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.lab.barrier import Event, read_barrier
from shardrel.lab.processes import IsolatedProcesses
from shardrel.lab.tasks import Happened, Place, Publish, Recover, Train

PLACE = Place(store="store", keys="keys", dataset="data", run="run", seed=1)
TRAIN = Train(place=PLACE, cache="cache", handoff="handoff", batches=1, global_batch=60)
PUBLISH = Publish(place=PLACE, publications=(), watched=True)
EVENT = json.encode(Happened(event=Event(number=0, step="begin", operation="read", place="gate-state"))).decode()

HEAD = "import os, signal, sys; sys.stderr.write(f'{os.getpid()} '); sys.stderr.flush(); sys.stdin.readline()\n"
TELLS_AND_HANGS = HEAD + f"print({EVENT!r}, flush=True)\nsys.stdin.read(1)\nsignal.pause()"
CLOSES_ITS_OUTPUT_AND_HANGS = HEAD + "os.close(1)\nsignal.pause()"
STARTS_ONE = """
said, tell = os.pipe()
child = os.fork()
if child == 0:
    sys.stderr.write(f"{os.getpid()} ")
    sys.stderr.flush()
    os.close(1)
    os.write(tell, b"+")
    signal.pause()
os.read(said, 1)
"""
A_RANK_HANGS = HEAD + STARTS_ONE + "os.waitpid(child, 0)"
THE_LEADER_FAILS = HEAD + STARTS_ONE + "os._exit(3)"
SAYS_TOO_MUCH = HEAD + "print('x' * 100_000, flush=True)\nsignal.pause()"


def hanging(program: str, logs: Path, patience_s: float = 3) -> IsolatedProcesses:
    words: Sequence[str] = (sys.executable, "-c", program)
    return IsolatedProcesses(environment=dict(os.environ), logs=logs, patience_s=patience_s, program=words)


def gone(logs: Path, count: int) -> bool:
    """Whether every process that said its id there has ended and was waited for; init may take a moment for a rank."""
    ids = [int(word) for path in logs.iterdir() for word in path.read_text().split()]
    for process in ids:
        deadline = time.monotonic() + 20
        while alive(process):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    return len(ids) == count


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("program", [TELLS_AND_HANGS, CLOSES_ITS_OUTPUT_AND_HANGS])
def test_a_publisher_that_hangs_ends_the_drill_by_a_code(program: str, tmp_path: Path) -> None:
    with pytest.raises(RunFailedError) as failed:
        hanging(program, tmp_path).kill_at("publisher", PUBLISH, read_barrier("commit-after-rename"))
    assert failed.value.code == ErrorCode.RUN_RANK_FAILED
    assert gone(tmp_path, 1)


def test_a_publisher_that_never_ends_its_line_is_not_read_for_ever(tmp_path: Path) -> None:
    with pytest.raises(RunFailedError) as failed:
        hanging(SAYS_TOO_MUCH, tmp_path).kill_at("publisher", PUBLISH, read_barrier("commit-after-rename"))
    assert failed.value.code == ErrorCode.RUN_RANK_FAILED
    assert gone(tmp_path, 1)


def test_a_task_that_hangs_ends_the_drill_by_a_code(tmp_path: Path) -> None:
    with pytest.raises(RunFailedError) as failed:
        hanging(CLOSES_ITS_OUTPUT_AND_HANGS, tmp_path).run("recovery", Recover(place=PLACE))
    assert failed.value.code == ErrorCode.RUN_RANK_FAILED
    assert gone(tmp_path, 1)


@pytest.mark.parametrize(("program", "status"), [(A_RANK_HANGS, "-9"), (THE_LEADER_FAILS, "3")])
def test_a_group_that_hangs_or_loses_its_leader_leaves_no_rank(program: str, status: str, tmp_path: Path) -> None:
    with pytest.raises(RunFailedError) as failed:
        hanging(program, tmp_path, 3 if status == "-9" else 60).group("genesis", TRAIN, 3, None)
    assert failed.value.code == ErrorCode.RUN_RANK_FAILED
    assert failed.value.context["statuses"] == [status]
    assert gone(tmp_path, 2)


class Interrupting:
    """A barrier at which whoever looks is interrupted."""

    name = "interrupted"

    def is_at(self, events: Sequence[Event]) -> bool:
        raise KeyboardInterrupt


def test_a_drill_that_is_interrupted_leaves_no_process(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        hanging(TELLS_AND_HANGS, tmp_path).kill_at("publisher", PUBLISH, Interrupting())  # type: ignore[arg-type]
    assert gone(tmp_path, 1)

"""A group of workers: a fresh process that loads what training needs once, and a fork of it for every rank.

Source: schemas/SPEC.md#crash-lab. Groups have nothing in common but files. A rank's stdout is the leader's alone; what it
says on stderr is in a file of its own.
"""

import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from shardrel.canonical import json
from shardrel.lab.model import Training
from shardrel.lab.tasks import Group, Grouped, RankEnd, Train, Trained

FAILED = 1

Work = Callable[[Train], Trained]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rank:
    process: int
    answers: int


def lead(task: Group, work: Work, watch: Callable[[], None]) -> Grouped:
    """Start the ranks, and wait for every one of them.

    Args:
        task: What they do, and how many there are.
        work: One rank's life.
        watch: Begins to watch a process's time; a fork does not inherit that.

    Effects: processes, all of them waited for; their files.
    """
    Training(0)  # loads what an optimizer loads late, so that no rank has to
    sys.stdout.flush()
    sys.stderr.flush()
    ranks = [_start(task, rank, work, watch) for rank in range(task.world_size)]
    watch()
    return Grouped(ranks=tuple(_ended(one) for one in ranks))


def _start(task: Group, rank: int, work: Work, watch: Callable[[], None]) -> _Rank:
    answers, into = os.pipe()
    process = os.fork()
    if process == 0:
        _rank(task, rank, work, watch, into)
    os.close(into)
    return _Rank(process=process, answers=answers)


def _rank(task: Group, rank: int, work: Work, watch: Callable[[], None], into: int) -> NoReturn:
    """Ends by itself, without what the leader's interpreter would do at its end."""
    status = FAILED
    try:
        _move_in(Path(task.logs) / f"{task.name}-{rank}.stderr", into)
        watch()
        os.environ["RANK"] = str(rank)  # noqa: TID251 (torchrun would give each rank its seat like this)
        sys.stdout.buffer.write(json.encode(work(task.train)))
        sys.stdout.buffer.flush()
        status = 0
    finally:
        if status:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(status)


def _move_in(log: Path, into: int) -> None:
    """Streams of its own, before anything is said."""
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for opened, standard in ((nothing, 0), (into, 1), (said, 2)):
        os.dup2(opened, standard)
        os.close(opened)


def _ended(one: _Rank) -> RankEnd:
    with open(one.answers, "rb") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(one.process, 0)[1])
    return RankEnd(status=status, answer=json.decode(said, Trained) if status == 0 else None)

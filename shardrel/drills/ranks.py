"""Ranks of a job as threads of one process, over the port that the product's process group implements.

No torch is needed: what ranks agree on before step 0 goes through this port alone.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from shardrel.checkpoint.group import Group
from shardrel.errors import ErrorCode, RunFailedError

T = TypeVar("T")


class _Job:
    """What the threads share: one board of messages a round."""

    def __init__(self, world_size: int, timeout: float) -> None:
        self.world_size = world_size
        self.timeout = timeout
        self.came = threading.Condition()
        self.rounds: list[dict[int, bytes]] = []


class ThreadGroup:
    """One rank, as a ``shardrel.checkpoint.group.Group``."""

    def __init__(self, job: _Job, rank: int) -> None:
        self._job = job
        self._round = 0
        self.rank = rank
        self.world_size = job.world_size

    def exchange(self, message: bytes) -> list[bytes]:
        """Give one message, get those of all ranks.

        Raises:
            RunFailedError: ``run.barrier-timeout`` with the ranks that didn't come.

        Ranks: all.
        """
        job, number = self._job, self._round
        self._round += 1
        with job.came:
            while len(job.rounds) <= number:
                job.rounds.append({})
            board = job.rounds[number]
            board[self.rank] = message
            job.came.notify_all()
            if not job.came.wait_for(lambda: len(board) == job.world_size, job.timeout):
                late = [str(rank) for rank in range(job.world_size) if rank not in board]
                raise RunFailedError(ErrorCode.RUN_TIMEOUT, "ranks didn't come", ranks=late)
            return [board[rank] for rank in range(job.world_size)]


def run_ranks(world_size: int, part: Callable[[Group], T], *, timeout: float = 30.0) -> list[T | BaseException]:
    """Run one function as every rank; what each gave or raised, in order of the ranks.

    Args:
        world_size: How many ranks.
        part: What each of them does.
        timeout: Seconds that a rank waits for the others.
    """
    job = _Job(world_size, timeout)
    with ThreadPoolExecutor(world_size) as pool:
        ranks: list[Future[T]] = [pool.submit(part, ThreadGroup(job, rank)) for rank in range(world_size)]
        return [rank.exception() or rank.result() for rank in ranks]

"""Ranks of a job as threads of one process, over the port that the product's process group implements."""

import threading
from collections.abc import Callable
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
    """One rank."""

    def __init__(self, job: _Job, rank: int) -> None:
        self._job = job
        self._round = 0
        self.rank = rank
        self.world_size = job.world_size

    def exchange(self, message: bytes) -> list[bytes]:
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
    """Run one function as every rank; what each gave or raised, in order of the ranks."""
    job = _Job(world_size, timeout)
    results: dict[int, T | BaseException] = {}

    def body(rank: int) -> None:
        try:
            results[rank] = part(ThreadGroup(job, rank))
        except Exception as err:  # noqa: BLE001 (what a rank raises is what the test looks at)
            results[rank] = err

    threads = [threading.Thread(target=body, args=(rank,)) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[rank] for rank in range(world_size)]


def all_good(results: list[T | BaseException]) -> list[T]:
    """What the ranks gave; raises the first failure."""
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


def failures(results: list[T | BaseException]) -> list[RunFailedError]:
    """The failure of each rank, which all must have."""
    assert all(isinstance(result, RunFailedError) for result in results), results
    return [result for result in results if isinstance(result, RunFailedError)]

"""What tests ask about the ranks of ``shardrel.drills.ranks``."""

from typing import TypeVar

from shardrel.errors import RunFailedError

T = TypeVar("T")


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

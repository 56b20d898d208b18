"""Work on many things at once, in bounded memory and in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def threads(count: int) -> Iterator[Executor]:
    """A pool of threads; at the end of the block, also by an error, what has not begun never does."""
    pool = ThreadPoolExecutor(count, thread_name_prefix="publish")
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def in_order(pool: Executor, work: Callable[[T], R], items: Iterable[T], ahead: int) -> Iterator[R]:
    """Results in the order of the items, with at most ``ahead`` of them under way or waiting.

    Unlike ``Executor.map`` it takes an item only when there is room for its result. When the
    caller stops early, or a result is an error, what has not begun is cancelled.
    """
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()

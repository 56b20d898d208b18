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


def in_order(
    pool: Executor, work: Callable[[T], R], items: Iterable[T], ahead: int, size: Callable[[T], int] = lambda _: 1
) -> Iterator[R]:
    """Results in the order of the items, with at most ``ahead`` of them under way or waiting.

    Unlike ``Executor.map`` it takes an item only when there is room for its result. When the
    caller stops early, or a result is an error, what has not begun is cancelled.

    Args:
        pool: Where the work is done.
        work: On one item.
        items: Taken one by one.
        ahead: Sizes of the items, all together.
        size: Of one item, at least 1; one that is larger than ``ahead`` is alone.
    """
    waiting: deque[tuple[Future[R], int]] = deque()
    filled = 0
    try:
        for item in items:
            filled += (room := size(item))
            waiting.append((pool.submit(work, item), room))
            while filled >= ahead:
                result, room = waiting.popleft()
                filled -= room
                yield result.result()
        while waiting:
            yield waiting.popleft()[0].result()
    finally:
        for future, _ in waiting:
            future.cancel()

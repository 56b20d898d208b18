"""Work in parallel, results in order, memory bounded."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(pool: Executor, work: Callable[[Item], Result], items: Iterable[Item], window: int) -> Iterator[Result]:
    """Results in the order of the items; at most ``window`` of them are begun and not yet taken."""
    begun: deque[Future[Result]] = deque()
    try:
        for item in items:
            if len(begun) >= window:
                yield begun.popleft().result()
            begun.append(pool.submit(work, item))
        while begun:
            yield begun.popleft().result()
    finally:
        for future in begun:
            future.cancel()

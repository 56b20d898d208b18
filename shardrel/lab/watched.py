"""A local store that tells every operation, and every durable step inside of one. Source: schemas/SPEC.md#crash-lab."""

import os
from collections.abc import Callable
from typing import TypeVar

from shardrel.lab.barrier import BEGIN, END, Event, place_of
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.local import LocalStore
from shardrel.store.port import ObjectKey

T = TypeVar("T")

Tell = Callable[[Event], None]


class WatchedStore(ForwardingStore):
    """A local store; ``tell`` returns once the event is acknowledged, or never."""

    def __init__(self, path: str | os.PathLike[str], tell: Tell) -> None:
        super().__init__(_Stepping(path, self._say))
        self._tell = tell
        self._number = 0
        self._operation = ""

    def around(self, operation: str, key: str, request: Callable[[], T]) -> T:
        """Tell when it begins and when it has ended."""
        self._operation = operation
        self._say(BEGIN, key)
        outcome = request()
        self._say(END, key)
        return outcome

    def _say(self, step: str, key: str) -> None:
        event = Event(number=self._number, step=step, operation=self._operation, place=place_of(key))
        self._number += 1
        self._tell(event)


class _Stepping(LocalStore):
    def __init__(self, path: str | os.PathLike[str], say: Callable[[str, str], None]) -> None:
        super().__init__(path)
        self._say = say

    def passed(self, step: str, key: ObjectKey) -> None:
        self._say(step, key)

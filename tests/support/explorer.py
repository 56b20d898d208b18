"""Breadth-first exploration of a state space, with the shortest way to a violation.

A state is any value; ``key`` makes it canonical, and of two states with one key only the first is
explored. A rule is checked in every state and on every step, also on those that lead to known states.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S")
Key = Callable[[S], Hashable]
Successors = Callable[[S], Iterable[tuple[str, S]]]


class ViolationError(AssertionError):
    """A rule does not hold; its text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """How much was seen, and what was wrong.

    Attributes:
        depth: Steps from the start to the farthest state.
        steps: How often each kind of step was taken (the first word of its name).
        violation: The first rule that did not hold, or None.
        path: Names of the steps that lead there.
    """

    states: int
    transitions: int
    depth: int
    steps: dict[str, int]
    violation: str | None = None
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.states} states, {self.transitions} transitions, depth {self.depth}"


@dataclass(kw_only=True)
class Exploration(Generic[S]):
    """What to explore.

    Attributes:
        check: Called with every state.
        check_step: Called with every step: the state before, the name, the state after.
        most: Stop with an error beyond so many states: a bound that was chosen badly.
    """

    start: S
    key: Key[S]
    successors: Successors[S]
    check: Callable[[S], None]
    check_step: Callable[[S, str, S], None]
    most: int = 5_000_000

    def run(self) -> Explored:
        """Explore everything, or up to the first violation."""
        self._numbers: dict[bytes, int] = {}
        self._came_from: list[tuple[int, str]] = []
        self._waiting: deque[tuple[S, int]] = deque()
        self._transitions = 0
        self._steps: dict[str, int] = {}
        violation, last = None, (-1, "")
        try:
            self._meet(self.start, last)
            while self._waiting:
                state, at = self._waiting.popleft()
                for name, after in self.successors(state):
                    last = (at, name)
                    self._count(name)
                    self.check_step(state, name, after)
                    self._meet(after, last)
        except ViolationError as err:
            violation = str(err)
        return Explored(
            states=len(self._came_from),
            transitions=self._transitions,
            depth=len(self._path(len(self._came_from) - 1)),
            steps=self._steps,
            violation=violation,
            path=() if violation is None else (*self._path(last[0]), last[1]),
        )

    def _meet(self, state: S, came_from: tuple[int, str]) -> None:
        name = _digest(self.key(state))
        if name in self._numbers:
            return
        self.check(state)
        self._numbers[name] = len(self._came_from)
        self._waiting.append((state, len(self._came_from)))
        self._came_from.append(came_from)
        if len(self._came_from) > self.most:
            raise AssertionError(f"more than {self.most} states")

    def _count(self, name: str) -> None:
        self._transitions += 1
        kind = name.partition(" ")[0]
        self._steps[kind] = self._steps.get(kind, 0) + 1

    def _path(self, at: int) -> tuple[str, ...]:
        names = []
        while at > 0:
            at, name = self._came_from[at]
            names.append(name)
        return tuple(reversed(names))


def _digest(key: Hashable) -> bytes:
    """16 bytes in place of a deep tuple: a million states fit into memory."""
    return hashlib.blake2b(repr(key).encode(), digest_size=16).digest()

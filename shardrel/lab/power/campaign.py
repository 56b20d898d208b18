"""Every state of every transaction: rebuilt, recovered from, judged. Source: schemas/SPEC.md#power-loss."""

import itertools
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardrel.lab.power.disk import Disk, Image
from shardrel.lab.power.folder import Rebuilder
from shardrel.lab.power.home import at, summary
from shardrel.lab.power.judge import Violation, judge
from shardrel.lab.power.marks import Recorded, Told
from shardrel.lab.power.operations import Mark, Operation, below
from shardrel.lab.power.states import BOUNDS, Bounds, Key, combinations, crash_states, key
from shardrel.lab.power.story import named

Replay = Callable[[Sequence[Image], str, str], Sequence[Sequence[Operation]]]
"""In each of these homes, run the transaction of a name again that is to come to a goal, recorded."""


@dataclass(slots=True, kw_only=True)
class Examined:
    """What came of one transaction.

    Attributes:
        calls: System calls of it that changed something, or made it durable.
        points: Moments at which power was lost.
        bounded: Those of them of which not every combination was made.
        states: Different ones that the disk may be found in at one of them.
        reruns: Moments at which the process was killed, and the transaction run again to its end.
        later: Different states that the disk may be found in when power is lost behind the end of one of these.
        judged: States that were rebuilt and recovered from.
        violations: By what they are, how many states show them.
    """

    name: str
    calls: int = 0
    points: int = 0
    bounded: int = 0
    states: int = 0
    reruns: int = 0
    later: int = 0
    judged: int = 0
    violations: dict[Violation, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _State:
    image: Image
    told: Told


class Campaign:
    """Judges transactions, one after the other, in a scratch folder."""

    def __init__(self, scratch: Path, bounds: Bounds = BOUNDS, every: int = 1) -> None:
        """Take every so manieth state of a transaction; all of them unless it is said otherwise."""
        self._home = scratch / "state"
        self._rebuilder = Rebuilder(scratch)
        self._bounds, self._every = bounds, every

    def examine(self, recorded: Recorded, replay: Replay | None) -> Examined:
        """One transaction: power is lost at each of its moments; with ``replay`` also behind each re-run of it."""
        goal = self._goal(recorded)
        done = Examined(name=recorded.name, calls=recorded.calls)
        states, killed = self._enumerate(recorded, done)
        self._judged(done, recorded, goal, states)
        if replay is not None:
            chosen = killed[:: self._every]
            later = self._behind(recorded, goal, chosen, replay)
            done.reruns, done.later = len(chosen), len(later)
            self._judged(done, recorded, goal, later)
        return done

    def _goal(self, recorded: Recorded) -> str:
        disk = Disk(recorded.before)
        for operation in recorded.operations:
            disk.apply(operation)
        self._rebuilder.build(disk.visible, self._home)
        return summary(at(self._home)) or ""

    def _enumerate(self, recorded: Recorded, done: Examined) -> tuple[dict[Key, _State], list[tuple[Disk, Told]]]:
        """States, each with all that was acknowledged by the last moment that may leave it; moments that look new."""
        disk, told = Disk(recorded.before), recorded.told
        states: dict[Key, _State] = {}
        seen: dict[Key, tuple[Disk, Told]] = {}
        for operation in recorded.operations:
            disk.apply(operation)
            if isinstance(operation, Mark):
                told = told.hearing(operation.text)
            else:
                done.points += 1
                done.bounded += combinations(disk, self._bounds) > self._bounds.states
            if not told.done:
                seen.setdefault(key(disk.visible), (disk.copy(), told))
            for one, image in crash_states(disk, self._bounds).items():
                states[one] = _State(image, told)
        done.states = len(states)
        return states, list(seen.values())

    def _judged(self, done: Examined, recorded: Recorded, goal: str, states: dict[Key, _State]) -> None:
        act = named(recorded.name).act
        for state in list(states.values())[:: self._every]:
            self._rebuilder.build(state.image, self._home)
            done.judged += 1
            for violation in judge(self._home, act, goal, state.told):
                done.violations[violation] = done.violations.get(violation, 0) + 1

    def _behind(
        self, recorded: Recorded, goal: str, killed: Sequence[tuple[Disk, Told]], replay: Replay
    ) -> dict[Key, _State]:
        """States behind the end of a re-run, with what both processes had acknowledged."""
        states: dict[Key, _State] = {}
        again = replay([disk.visible for disk, _ in killed], recorded.name, goal)
        for (disk, told), operations in zip(killed, again, strict=True):
            for operation in operations:
                disk.apply(operation)
                if isinstance(operation, Mark):
                    told = told.hearing(operation.text)
            for one, image in crash_states(disk, self._bounds).items():
                states[one] = _State(image, told)
        return states


def replayer(scratch: Path, record: Callable[[Path, Path, dict[str, Any]], list[Operation]]) -> Replay:
    """Re-runs in one recorded process for each transaction, each in a home of its own."""
    rounds = itertools.count()

    def replay(images: Sequence[Image], name: str, goal: str) -> Sequence[Sequence[Operation]]:
        place = scratch / f"again-{next(rounds)}"
        folders = place / "homes"
        folders.mkdir(parents=True)
        rebuilder = Rebuilder(place)
        for number, image in enumerate(images):
            rebuilder.build(image, folders / str(number))
        homes = [str(folders / str(number)) for number in range(len(images))]
        operations = record(place, folders, {"task": "again", "homes": homes, "name": name, "goal": goal})
        shutil.rmtree(place)
        return by_home(operations, len(images))

    return replay


def by_home(operations: Iterable[Operation], count: int) -> list[list[Operation]]:
    """The operations of each home, one after the other; a mark belongs to the home that was begun last."""
    parts: list[list[Operation]] = [[] for _ in range(count)]
    current = 0
    for operation in operations:
        if isinstance(operation, Mark):
            current = int(json.loads(operation.text).get("home", current))
        inside = below(operation, str(current))
        if inside is not None:
            parts[current].append(inside)
    return parts

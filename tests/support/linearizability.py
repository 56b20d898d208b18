"""Whether a recorded history can be explained by one gate that does one thing at a time.

``check_chain`` uses what a gate gives away: its hash chain is the order in which everything happened, so
that no search is needed and thousands of operations are checked at once. ``explained`` searches for an
order, after Wing and Gong with the memory of Lowe, and knows nothing of chains; it is for small histories,
and the two are held against each other.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from tests.support.histories import Attempt


class NotLinearizableError(AssertionError):
    """No order of the operations explains what the clients were told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One link of the chain: whose it is, and what whoever asked for it was to be told."""

    sequence: int
    operation: str
    answer: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """Something that took effect at one moment between ``called`` and ``returned``."""

    name: str
    called: float
    returned: float


def check_chain(attempts: Iterable[Attempt], chain: Sequence[Link]) -> int:
    """Check a history against the chain; a read's answer is the sequence that it saw.

    Links of operations that are older than the history have no attempt; nothing is asked of them.

    Returns:
        How many operations and reads there are.

    Raises:
        NotLinearizableError: with the first operation that nothing explains.
    """
    calls: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        calls[attempt.operation].append(attempt)
    where: dict[str, Link] = {}
    for link in chain:
        if link.operation in where:
            raise NotLinearizableError(f"{link.operation} has two effects")
        where[link.operation] = link
    points: dict[tuple[int, int], list[_Point]] = defaultdict(list)
    for operation, tries in calls.items():
        if tries[0].kind == "read":
            for read in tries:
                if read.outcome == "done":
                    points[(read.answer, 1)].append(_point(operation, [read]))
        elif _has_effect(operation, tries, where.get(operation)):
            points[(where[operation].sequence, 0)].append(_point(operation, tries))
    _in_order(points, {link.sequence for link in chain})
    return sum(len(found) for found in points.values())


def _has_effect(operation: str, tries: list[Attempt], link: Link | None) -> bool:
    """Whether the chain holds the operation; and whether that, and the answer, is what its client was told."""
    answers = [attempt.answer for attempt in tries if attempt.outcome == "done"]
    if answers and link is None:
        raise NotLinearizableError(f"{operation} was acknowledged and has no effect")
    if link is None:
        return False
    if all(attempt.outcome == "refused" for attempt in tries):
        raise NotLinearizableError(f"{operation} was refused and has an effect")
    if any(answer != link.answer for answer in answers):
        raise NotLinearizableError(f"{operation} was told something else than what it did")
    return True


def _point(operation: str, tries: list[Attempt]) -> _Point:
    """The effect came after the first call, and before anybody was told of it."""
    told = [attempt.returned for attempt in tries if attempt.outcome == "done" and attempt.returned is not None]
    return _Point(name=operation, called=tries[0].called, returned=min(told, default=inf))


def _in_order(points: dict[tuple[int, int], list[_Point]], sequences: set[int]) -> None:
    """Nothing is over before something that stands earlier in the order has begun."""
    latest, earlier = -inf, ""
    for place in sorted(points):
        if place[0] not in sequences:
            raise NotLinearizableError(f"{points[place][0].name} saw a state that there never was")
        for point in sorted(points[place], key=lambda one: one.called):
            if point.returned < latest:
                raise NotLinearizableError(f"{point.name} was over before {earlier} began, and stands behind it")
            if point.called > latest:
                latest, earlier = point.called, point.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operation for the search.

    Attributes:
        returned: ``inf`` where no answer came; the operation may then have had its effect or not.
        apply: The state after it, or None where its answer does not fit the state.
    """

    called: float
    returned: float
    apply: Callable[[Hashable], Hashable | None]


def explained(calls: Sequence[Call], state: Hashable, *, ends: Hashable | None = None) -> bool:
    """Whether some order of the calls, each between call and return, fits every answer.

    Args:
        calls: At most about twenty.
        state: Before the first.
        ends: The state that is there in the end; None for any.
    """
    seen: set[tuple[frozenset[int], Hashable]] = set()
    waiting = [(frozenset(range(len(calls))), state)]
    while waiting:
        rest, now = waiting.pop()
        if (rest, now) in seen:
            continue
        seen.add((rest, now))
        if all(calls[at].returned == inf for at in rest) and ends in (None, now):
            return True
        first = min((calls[at].returned for at in rest), default=inf)
        for at in rest:
            if calls[at].called <= first:
                after = calls[at].apply(now)
                if after is not None:
                    waiting.append((rest - {at}, after))
    return False

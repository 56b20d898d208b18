"""The checker of histories: good ones pass, each kind of bad one does not, and it agrees with a search."""

from collections.abc import Callable, Hashable
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.histories import Attempt, Outcome
from tests.support.linearizability import Call, Link, NotLinearizableError, check_chain, explained


def did(operation: str, called: int, returned: int | None, outcome: Outcome = "done", answer: int = 0) -> Attempt:
    kind = "read" if operation.startswith("read") else "admit"
    return Attempt(
        client=operation, operation=operation, kind=kind, called=called, returned=returned, outcome=outcome,
        answer=answer,
    )  # fmt: skip


def chain(*operations: str) -> list[Link]:
    return [Link(sequence=at, operation=name, answer=at) for at, name in enumerate(operations, start=1)]


GOOD = {
    "one after the other": [did("a", 0, 1, answer=1), did("b", 2, 3, answer=2)],
    "at once, in the other order": [did("b", 0, 9, answer=2), did("a", 1, 8, answer=1)],
    "a lost answer that took effect": [did("a", 0, None, "unknown"), did("b", 5, 6, answer=2)],
    "asked again": [did("a", 0, 1, "unknown"), did("b", 2, 9, answer=2), did("a", 3, 8, answer=1)],
    "a read of either state": [did("a", 0, 5, answer=1), did("b", 1, 6, answer=2), did("read", 2, 3, answer=1)],
    "refused": [did("a", 0, 1, answer=1), did("c", 0, 1, "refused"), did("b", 2, 3, answer=2)],
    "no effect, not known": [did("a", 0, 1, answer=1), did("c", 0, None, "unknown"), did("b", 2, 3, answer=2)],
}
BAD = {
    "order against time": [did("b", 0, 1, answer=2), did("a", 2, 3, answer=1)],
    "an acknowledged one is lost": [did("a", 0, 1, answer=1), did("b", 2, 3, answer=2), did("c", 4, 5, answer=3)],
    "a refused one has an effect": [did("a", 0, 1, answer=1), did("b", 2, 3, "refused")],
    "told something else": [did("a", 0, 1, answer=1), did("b", 2, 3, answer=1)],
    "a stale read": [did("a", 0, 1, answer=1), did("b", 2, 3, answer=2), did("read", 4, 5, answer=1)],
    "a read of the future": [did("a", 0, 1, answer=1), did("read", 2, 3, answer=2), did("b", 4, 5, answer=2)],
    "a read that goes back": [
        did("a", 0, 9, answer=1), did("b", 0, 9, answer=2), did("read1", 1, 2, answer=2), did("read2", 3, 4, answer=1),
    ],
    "a read of nothing": [did("a", 0, 1, answer=1), did("b", 2, 3, answer=2), did("read", 4, 5, answer=7)],
}  # fmt: skip


@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD.keys())
def test_a_good_history_passes(history: list[Attempt]) -> None:
    assert check_chain(history, chain("a", "b")) >= 2


@pytest.mark.parametrize("history", BAD.values(), ids=BAD.keys())
def test_a_bad_history_does_not(history: list[Attempt]) -> None:
    with pytest.raises(NotLinearizableError):
        check_chain(history, chain("a", "b"))


def test_two_effects_of_one_operation_are_seen_in_the_chain_alone() -> None:
    with pytest.raises(NotLinearizableError):
        check_chain([], chain("a", "a"))


Gate = tuple[str, ...]


def as_call(attempt: Attempt) -> Call:
    """The same for the search, whose state is the operations that there were."""

    def apply(state: Hashable) -> Hashable | None:
        assert isinstance(state, tuple)
        if attempt.kind == "read":
            return state if attempt.answer == len(state) else None
        after = (*state, attempt.operation)
        return after if attempt.outcome == "unknown" or attempt.answer == len(after) else None

    return Call(
        called=attempt.called,
        returned=inf if attempt.returned is None or attempt.outcome == "unknown" else attempt.returned,
        apply=apply,
    )


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Attempt], list[str]]:
    """Calls at random times with answers that are often right."""
    names = draw(st.permutations(["a", "b", "c", "d"]))[: draw(st.integers(1, 4))]
    attempts = []
    for at, name in enumerate(names, start=1):
        called = draw(st.integers(0, 12))
        unknown = draw(st.integers(0, 4)) == 0
        returned = None if unknown else called + draw(st.integers(1, 8))
        attempts.append(did(name, called, returned, "unknown" if unknown else "done", answer=at))
    for number in range(draw(st.integers(0, 3))):
        called = draw(st.integers(0, 20))
        seen = draw(st.integers(1, len(names)))
        attempts.append(did(f"read{number}", called, called + draw(st.integers(1, 6)), answer=seen))
    return attempts, list(names)


@settings(max_examples=400)
@given(histories())
def test_the_checker_agrees_with_a_search(history: tuple[list[Attempt], list[str]]) -> None:
    attempts, order = history
    found = explained([as_call(attempt) for attempt in attempts], (), ends=tuple(order))
    check: Callable[[], int] = lambda: check_chain(attempts, chain(*order))  # noqa: E731
    if found:
        check()
    else:
        with pytest.raises(NotLinearizableError):
            check()

"""What clients of a gate called and what they were told, written down as it happens.

A process that is killed leaves the calls that it made: each line is appended before a call, and after its
answer, with the time of a clock that all processes of a machine share.
"""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Outcome = Literal["done", "refused", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One call.

    Attributes:
        operation: The operation id; for a read a name of its own.
        kind: The verb, or ``read``.
        returned: When the answer came; None when it never did.
        outcome: ``unknown`` also where the client was killed.
        answer: What it was told.
    """

    client: str
    operation: str
    kind: str
    called: int
    returned: int | None
    outcome: Outcome
    answer: Any


class Recorder:
    """Appends one client's calls to a file."""

    def __init__(self, path: Path, client: str, now: Callable[[], int] = time.monotonic_ns) -> None:
        self._path, self._client, self._now = path, client, now

    def record(self, operation: str, kind: str, call: Callable[[], tuple[Outcome, Any]]) -> Outcome:
        """Make a call between two lines."""
        self._append({"client": self._client, "operation": operation, "kind": kind, "called": self._now()})
        outcome, answer = call()
        self._append({"operation": operation, "returned": self._now(), "outcome": outcome, "answer": answer})
        return outcome

    def _append(self, line: dict[str, Any]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def read_attempts(path: Path) -> list[Attempt]:
    """The calls of one client, in order; those without an answer are unknown."""
    attempts: list[Attempt] = []
    calls: list[dict[str, Any]] = []
    for text in path.read_text().splitlines() if path.exists() else ():
        line = json.loads(text)
        if "called" in line:
            attempts += [_attempt(call, None) for call in calls]
            calls = [line]
        else:
            attempts.append(_attempt(calls.pop(), line))
    return attempts + [_attempt(call, None) for call in calls]


def _attempt(call: dict[str, Any], answer: dict[str, Any] | None) -> Attempt:
    return Attempt(
        client=call["client"],
        operation=call["operation"],
        kind=call["kind"],
        called=call["called"],
        returned=None if answer is None else answer["returned"],
        outcome="unknown" if answer is None else answer["outcome"],
        answer=None if answer is None else answer["answer"],
    )


def last_open(attempts: Iterable[Attempt]) -> str | None:
    """The operation whose outcome its client does not know."""
    last = None
    for attempt in attempts:
        last = attempt
    return last.operation if last is not None and last.outcome == "unknown" else None

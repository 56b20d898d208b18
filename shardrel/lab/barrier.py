"""Points of a transaction at which its process is killed. Pure. Source: schemas/SPEC.md#crash-lab."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.fields import Count, Record

FILE_FSYNC, RENAME, FOLDER_FSYNC = "file-fsync", "rename", "folder-fsync"
REQUEST, ANSWER, REFUSAL = "request", "answer", "refusal"
BEGIN, END = "begin", "end"
COMMIT, GATE_STATE = "commit", "gate-state"
PUT = "put_object"

_NUMBERED = re.compile(r"(store|request)-([1-9][0-9]{0,5})-(before|after)")
_ENDS = {
    ("store", "before"): (BEGIN,),
    ("store", "after"): (END,),
    ("request", "before"): (REQUEST,),
    ("request", "after"): (ANSWER, REFUSAL),
}
_PLACES = (
    ("objects/", "object"),
    ("attestations/", "attestation"),
    ("runs/[^/]+/commits/", COMMIT),
    ("runs/", "run-record"),
    ("gates/[^/]+/state", GATE_STATE),
    ("gates/[^/]+/operations/", "gate-operation"),
)


class Event(Record, frozen=True, kw_only=True):
    """Something that the publisher did, or is about to do.

    Attributes:
        number: From 0.
        step: ``begin`` and ``end`` of a store operation; inside of it, in a folder, ``file-fsync`` (the draft is
            durable), ``rename`` (it has its name) and ``folder-fsync`` (so has the folder); on a server ``request``, and
            ``answer`` (it is done) or ``refusal`` (another answer, or none).
        operation: Of the store: create, read, swap, list. Of the server's interface where the step is a request's.
        place: Kind of the key.
    """

    number: Count
    step: str
    operation: str
    place: str


@dataclass(frozen=True, slots=True)
class Barrier:
    """Where to kill: at the first event of this step and place, or at one end of a numbered operation or request.

    Attributes:
        operation: Of the event, where a step is one of several operations.
        number: Of the operation or request, from 1.
    """

    name: str
    steps: tuple[str, ...]
    place: str | None = None
    operation: str | None = None
    number: int | None = None

    def is_at(self, events: Sequence[Event]) -> bool:
        """Whether the last event is the one."""
        last = events[-1]
        if last.step not in self.steps:
            return False
        if self.number is not None:
            return sum(event.step in self.steps for event in events) == self.number
        return last.place == self.place and self.operation in (None, last.operation)

    @property
    def of_a_server(self) -> bool | None:
        """Whether only a server has it, or only a folder; null for what both have."""
        if self.steps[0] in (BEGIN, END):
            return None
        return self.steps[0] in (REQUEST, ANSWER)


def read_barrier(name: str) -> Barrier:
    """A barrier by its name.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    if name in NAMED:
        return NAMED[name]
    found = _NUMBERED.fullmatch(name)
    if found is None:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"a barrier is one of {KNOWN}")
    return Barrier(name, _ENDS[found[1], found[3]], number=int(found[2]))


def place_of(key: str) -> str:
    """The kind of a key; names in it differ from run to run."""
    return next((place for pattern, place in _PLACES if re.match(pattern, key)), "other")


def installed(events: Sequence[Event]) -> bool:
    """Whether the commit record has its name."""
    return any(_lands(event, COMMIT) for event in events)


def admitted(events: Sequence[Event]) -> bool:
    """Whether the gate's state names the commit record."""
    return installed(events) and any(_lands(event, GATE_STATE) for event in events)


def _lands(event: Event, place: str) -> bool:
    """Whether something has its name from here on."""
    return event.place == place and (event.step == RENAME or (event.step, event.operation) == (ANSWER, PUT))


NAMED = {
    barrier.name: barrier
    for barrier in (
        Barrier("commit-after-file-fsync", (FILE_FSYNC,), COMMIT),
        Barrier("commit-after-rename", (RENAME,), COMMIT),
        Barrier("commit-after-folder-fsync", (FOLDER_FSYNC,), COMMIT),
        Barrier("gate-after-file-fsync", (FILE_FSYNC,), GATE_STATE),
        Barrier("gate-after-rename", (RENAME,), GATE_STATE),
        Barrier("commit-before-put", (REQUEST,), COMMIT, PUT),
        Barrier("commit-after-put", (ANSWER,), COMMIT, PUT),
        Barrier("gate-before-put", (REQUEST,), GATE_STATE, PUT),
        Barrier("gate-after-put", (ANSWER,), GATE_STATE, PUT),
    )
}

KNOWN = ", ".join([*NAMED, "store-N-before|after", "request-N-before|after"])
"""What a barrier may be called, for messages."""

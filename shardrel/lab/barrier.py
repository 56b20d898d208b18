"""Points of a transaction at which its process is killed. Pure. Source: schemas/SPEC.md#crash-lab."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.fields import Count, Record

FILE_FSYNC, RENAME, FOLDER_FSYNC = "file-fsync", "rename", "folder-fsync"
BEGIN, END = "begin", "end"
COMMIT, GATE_STATE = "commit", "gate-state"

_STORE = re.compile(r"store-([1-9][0-9]{0,5})-(before|after)")
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
        step: ``begin`` and ``end`` of a store operation; inside of it ``file-fsync`` (the draft is durable), ``rename``
            (it has its name) and ``folder-fsync`` (so has the folder).
        operation: Of the store: create, read, swap, list.
        place: Kind of the key.
    """

    number: Count
    step: str
    operation: str
    place: str


@dataclass(frozen=True, slots=True)
class Barrier:
    """Where to kill: at the first event of this step and place, or at one end of a numbered store operation."""

    name: str
    step: str
    place: str | None
    operation: int | None

    def is_at(self, events: Sequence[Event]) -> bool:
        """Whether the last event is the one."""
        last = events[-1]
        if self.operation is None:
            return (last.step, last.place) == (self.step, self.place)
        return last.step == self.step and sum(event.step == last.step for event in events) == self.operation


def read_barrier(name: str) -> Barrier:
    """A barrier by its name.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    if name in NAMED:
        return NAMED[name]
    found = _STORE.fullmatch(name)
    if found is None:
        known = ", ".join(NAMED)
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID, f"a barrier is one of {known}, or store-N-before or store-N-after"
        )
    return Barrier(name, BEGIN if found[2] == "before" else END, None, int(found[1]))


def place_of(key: str) -> str:
    """The kind of a key; names in it differ from run to run."""
    return next((place for pattern, place in _PLACES if re.match(pattern, key)), "other")


def installed(events: Sequence[Event]) -> bool:
    """Whether the commit record has its name."""
    return any((event.step, event.place) == (RENAME, COMMIT) for event in events)


def admitted(events: Sequence[Event]) -> bool:
    """Whether the gate's state names the commit record."""
    return installed(events) and any((event.step, event.place) == (RENAME, GATE_STATE) for event in events)


NAMED = {
    barrier.name: barrier
    for barrier in (
        Barrier("commit-after-file-fsync", FILE_FSYNC, COMMIT, None),
        Barrier("commit-after-rename", RENAME, COMMIT, None),
        Barrier("commit-after-folder-fsync", FOLDER_FSYNC, COMMIT, None),
        Barrier("gate-after-file-fsync", FILE_FSYNC, GATE_STATE, None),
        Barrier("gate-after-rename", RENAME, GATE_STATE, None),
    )
}

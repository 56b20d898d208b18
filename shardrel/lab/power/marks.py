"""What a recorded process had acknowledged at a moment, and what it was about to do. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from shardrel.lab.power.disk import Disk, Image
from shardrel.lab.power.operations import Mark, Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a process has said until now.

    Attributes:
        created: Digest of the bytes under each key that is acknowledged to be there.
        states: Of the gate, by the digest of their bytes: what may be found, oldest first.
        oldest: Position in ``states`` of the one that is acknowledged; null where none is.
        done: Whether somebody knows that the whole transaction is done.
        ended: Whether its own process told so.
    """

    created: Mapping[str, str]
    states: tuple[str, ...] = ()
    oldest: int | None = None
    done: bool = False
    ended: bool = False

    def hearing(self, text: str) -> "Told":
        """With one mark more."""
        fact = json.loads(text)
        if "created" in fact:
            return replace(self, created={**self.created, fact["created"]: fact["digest"]})
        if "trying" in fact:
            return replace(self, states=(*self.states, fact["digest"]))
        if "swapped" in fact:
            return replace(self, oldest=len(self.states) - 1 - self.states[::-1].index(fact["digest"]))
        return replace(self, done="end" in fact or "found" in fact, ended="end" in fact)


NOTHING = Told(created={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One transaction.

    Attributes:
        before: The disk when it began, on which everything was certain.
        told: What was acknowledged by then.
        operations: Of the transaction, marks included.
    """

    name: str
    before: Image
    told: Told
    operations: tuple[Operation, ...]

    @property
    def calls(self) -> int:
        """Calls that did something."""
        return sum(not isinstance(one, Mark) for one in self.operations)


def parted(operations: Iterable[Operation]) -> Iterator[Recorded]:
    """The transactions of a story. What was done between two of them is certain when the next begins."""
    disk, told = Disk({}), NOTHING
    name, before, made = "", Image(), list[Operation]()
    for operation in operations:
        fact = json.loads(operation.text) if isinstance(operation, Mark) else {}
        if "begin" in fact:
            name, before, made = fact["begin"], disk.visible, []
            told = replace(told, done=False, ended=False)
            begun = told
        disk.apply(operation)
        made.append(operation)
        if isinstance(operation, Mark):
            told = told.hearing(operation.text)
        if "end" in fact:
            yield Recorded(name=name, before=before, told=begun, operations=tuple(made))

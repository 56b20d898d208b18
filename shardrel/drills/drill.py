"""A drill as a value, and what came of one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardrel.errors import ErrorCode, ShardrelError

if TYPE_CHECKING:
    from shardrel.drills.scratch import Scratch

# What is observed where nothing stopped the fault.
NOTHING = "nothing"

Codes = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """One fault and the code that has to answer it.

    Attributes:
        name: In the command line, and of its dataset on the scratch store.
        about: One sentence: what goes wrong in the world.
        fault: What is done to show it.
        attack: The name that others have for it.
        expected: The code that stops it, or tells of it.
        section: Anchor of the SPEC that promises so.
        conduct: Does it; the codes seen, none where nothing stopped it.
    """

    name: str
    about: str
    fault: str
    attack: str
    expected: ErrorCode
    section: str
    conduct: "Callable[[Scratch], Codes]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a drill showed.

    Attributes:
        observed: The expected code where it was seen, else the first of what was, else ``nothing``.
        found: Everything that was seen.
    """

    drill: Drill
    observed: str
    found: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the fault was answered as it has to be."""
        return self.observed == self.drill.expected


def refusal(call: Callable[[], object]) -> str:
    """The code that refuses a call; ``nothing`` where it was let through."""
    try:
        call()
    except ShardrelError as err:
        return err.code
    return NOTHING

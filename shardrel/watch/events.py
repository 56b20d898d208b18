"""Events of a process as JSON lines: digests, counts, names and codes alone. Source: schemas/SPEC.md#watching."""

import json
import re
from collections.abc import Sequence
from typing import TextIO

from shardrel.clock import now_utc
from shardrel.errors import ShardrelError

Fact = str | int | float | bool | Sequence[str | int] | None

# Digests, codes, names of runs and aliases: nothing with a space, a quote or a line's end in it.
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+/-]{0,127}")
_WITHHELD = "withheld"


class Events:
    """Writes one line an event, each in one call.

    A string that is no digest, name or code is withheld: whoever adds an event cannot leak a record by mistake.
    """

    def __init__(self, out: TextIO | None = None, **always: Fact) -> None:
        self._out = out
        self._always = always

    @property
    def written(self) -> bool:
        """Whether there is an output."""
        return self._out is not None

    def say(self, event: str, **facts: Fact) -> None:
        """Write an event; to nowhere where there is no output."""
        if self._out is None:
            return
        line = {"time": now_utc(), "event": event, **self._always, **facts}
        self._out.write(json.dumps({name: plain(fact) for name, fact in line.items()}) + "\n")
        self._out.flush()

    def always(self, **facts: Fact) -> None:
        """Say these facts with each event from now on."""
        self._always = {**self._always, **facts}


def plain(fact: Fact) -> object:
    """A fact as it may be shown."""
    if isinstance(fact, str):
        return fact if _WORD.fullmatch(fact) else _WITHHELD
    if isinstance(fact, Sequence):
        return [plain(one) for one in fact]
    return fact


def about(err: ShardrelError) -> dict[str, Fact]:
    """What an event says of an error: its code and the guilty ranks, not its sentence."""
    ranks = err.context.get("ranks")
    return {"code": err.code.value, "ranks": list(ranks) if isinstance(ranks, list) else None}

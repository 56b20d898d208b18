"""``shardrel drill power-loss``: every state that a loss of power may leave a local store in is recovered from."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardrel.cli.drill_crash import need_torch
from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings
from shardrel.errors import ErrorCode, InvalidInputError

if TYPE_CHECKING:
    from shardrel.lab.power.campaign import Examined

NAME = "power-loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerOptions:
    """What the line says beside the drill's name."""

    only: str | None
    every: int | None
    leave_out: str | None

    @property
    def given(self) -> bool:
        """Whether there is one that only this drill has."""
        return any(value is not None for value in (self.only, self.every, self.leave_out))


def power_loss(settings: Settings, options: PowerOptions, say: Callable[[str], None]) -> Result:
    """Make the drill in a fresh folder, which is gone then."""
    need_torch()
    from shardrel.lab.power.conduct import conduct
    from shardrel.lab.power.folder import memory
    from shardrel.lab.power.leaving_out import Kind
    from shardrel.lab.power.recorder import need_strace
    from shardrel.lab.power.story import STORY

    need_strace()
    if options.leave_out is not None and options.leave_out not in list(Kind):
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"--leave-out takes one of: {', '.join(Kind)}")
    if options.only is not None and options.only not in [one.name for one in STORY]:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID, f"--only takes one of: {', '.join(one.name for one in STORY)}", given=options.only
        )
    left_out = None if options.leave_out is None else Kind(options.leave_out)
    with tempfile.TemporaryDirectory(prefix="shardrel-power-loss-", dir=memory()) as folder:
        place = Path(folder)
        done = conduct(place, only=options.only, every=options.every or 1, left_out=left_out, progress=say)
        found = list(done)
    return _shown(found, options)


def _shown(found: "Sequence[Examined]", options: PowerOptions) -> Result:
    violated = [one for one in found if one.violations]
    states, later = sum(one.states for one in found), sum(one.later for one in found)
    outcome = "FAILED" if violated else "PASSED"
    judged = sum(one.judged for one in found)
    return Result(
        data={
            "outcome": outcome,
            "states": states,
            "statesBehindRuns": later,
            "judged": judged,
            "every": options.every or 1,
            "leftOut": options.leave_out,
            "transactions": [_facts(one) for one in found],
        },
        headline=f"{outcome}: {judged:,} of {states + later:,} states after a loss of power were recovered from, "
        + ("all invariants hold" if not violated else "invariants are violated"),
        facts=[]
        if options.leave_out is None
        else [("left out of what was recorded", f"fsync of {options.leave_out}s")],
        tables=[_table(found), *([_violations(violated)] if violated else [])],
        status=1 if violated else 0,
    )


def _facts(one: "Examined") -> dict[str, Any]:
    return {
        "name": one.name,
        "systemCalls": one.calls,
        "crashPoints": one.points,
        "bounded": one.bounded,
        "states": one.states,
        "runsAgain": one.reruns,
        "statesBehindRuns": one.later,
        "judged": one.judged,
        "violations": [
            {"invariant": violation.invariant, "about": violation.about, "states": count}
            for violation, count in one.violations.items()
        ],
    }


def _table(found: "Sequence[Examined]") -> Table:
    rows = [
        (one.name, one.calls, one.points, one.bounded, one.states, one.reruns, one.later, sum(one.violations.values()))
        for one in found
    ]
    columns = ["transaction", "system calls", "crash points", "bounded", "states", "killed, run again", "states then"]
    return Table(columns=[*columns, "violated"], rows=rows)


def _violations(violated: "Sequence[Examined]") -> Table:
    rows = [(one.name, v.invariant, v.about, count) for one in violated for v, count in one.violations.items()]
    return Table(columns=["transaction", "invariant", "about", "states"], rows=rows)

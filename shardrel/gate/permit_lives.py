"""Every permit that a gate ever opened, and what closed it. Pure. Source: schemas/SPEC.md#operations (permits)"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from shardrel.records.transition import (
    Admit,
    AdvanceFence,
    Effects,
    EndRun,
    RenewRun,
    Request,
    Revoke,
    Rollback,
    StartRun,
)

ClosedBy = Literal["tombstones", "benchmarks", "revoke", "renewal", "move", "end", "other"]


class Made(Protocol):
    """A transition, or an entry of the log about one."""

    @property
    def sequence(self) -> int: ...
    @property
    def request(self) -> Request: ...
    @property
    def effects(self) -> Effects: ...
    @property
    def recorded_at(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """The transition that closed a permit.

    Attributes:
        by: The fence that moved, a revocation, the run's renewal or end, or the next move of the alias.
        watermark: Of the fence, where one moved.
        sequence: Of the transition.
    """

    by: ClosedBy
    watermark: int | None
    sequence: int
    recorded_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitLife:
    """One permit from its opening on; ``closing`` is None while it is open.

    Attributes:
        kind: ``publication`` of an alias, or ``run``.
        subject: The alias or the run.
    """

    permit: str
    kind: Literal["publication", "run"]
    subject: str
    root: str
    generation: int
    tombstone_watermark: int
    benchmark_fence: int
    sequence: int
    opened_at: str
    closing: Closing | None = None


def permit_lives(history: Iterable[Made]) -> list[PermitLife]:
    """All permits in the order of their opening.

    Args:
        history: All transitions, oldest first.
    """
    lives: dict[str, PermitLife] = {}
    for made in history:
        for permit in made.effects.closed_permits:
            if permit in lives:
                lives[permit] = replace(lives[permit], closing=_closing(made))
        opened = _opened(made)
        if opened is not None:
            lives[opened.permit] = opened
    return list(lives.values())


def _opened(made: Made) -> PermitLife | None:
    effects = made.effects
    subject = _subject(made.request)
    if effects.opened_permit is None or subject is None:
        return None
    return PermitLife(
        permit=effects.opened_permit,
        kind=subject[0],
        subject=subject[1],
        root=effects.root or "",
        generation=effects.generation or 0,
        tombstone_watermark=effects.tombstone_watermark or 0,
        benchmark_fence=effects.benchmark_fence or 0,
        sequence=made.sequence,
        opened_at=made.recorded_at,
    )


def _subject(request: Request) -> tuple[Literal["publication", "run"], str] | None:
    match request:
        case Admit(alias=alias) | Rollback(alias=alias):
            return "publication", alias
        case StartRun(run=run) | RenewRun(run=run):
            return "run", run
        case _:
            return None


def _closing(made: Made) -> Closing:
    by: ClosedBy = "other"
    watermark = None
    match made.request:
        case AdvanceFence(fence=fence, last=last):
            by, watermark = fence, last
        case Revoke():
            by = "revoke"
        case RenewRun():
            by = "renewal"
        case Admit() | Rollback():
            by = "move"
        case EndRun():
            by = "end"
    return Closing(by=by, watermark=watermark, sequence=made.sequence, recorded_at=made.recorded_at)

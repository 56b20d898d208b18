"""Who uses which roots: aliases, runs and checkpoints, of now and of the past. Pure. Source: schemas/SPEC.md#affected"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from shardrel.gate.past import Past
from shardrel.records.gate import GateBody

RunState = Literal["open", "finished", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsingAlias:
    """An alias that points to a root now."""

    alias: str
    generation: int
    root: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsingRun:
    """A run that is, or was, pinned to a root."""

    run: str
    state: RunState
    root: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsingCheckpoint:
    """A checkpoint that such a run had admitted.

    Attributes:
        commit: Digest of its commit record.
    """

    run: str
    generation: int
    commit: str
    root: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """All users of some roots, each list in order of names."""

    aliases: tuple[UsingAlias, ...]
    runs: tuple[UsingRun, ...]
    checkpoints: tuple[UsingCheckpoint, ...]


def known_roots(body: GateBody, past: Past) -> dict[str, str | None]:
    """Every root that state or history names, with its state; None for one that the gate has let go of."""
    found: dict[str, str | None] = {move.root: None for move in past.moves}
    found |= {root: None for run in past.ended.values() for root in run.roots}
    return dict(sorted((found | {root: one.state for root, one in body.candidates.items()}).items()))


def users_of(body: GateBody, past: Past, roots: Collection[str]) -> Users:
    """Who uses any of these roots."""
    runs = [UsingRun(run=name, state="open", root=root) for name, run in body.runs.items() for root in run.roots]
    runs += [UsingRun(run=name, state=run.outcome, root=root) for name, run in past.ended.items() for root in run.roots]
    runs = sorted((run for run in runs if run.root in roots), key=lambda run: run.run)
    return Users(
        aliases=tuple(
            UsingAlias(alias=name, generation=alias.generation, root=alias.root)
            for name, alias in sorted(body.aliases.items())
            if alias.root in roots
        ),
        runs=tuple(runs),
        checkpoints=tuple(
            UsingCheckpoint(run=run.run, generation=made.generation, commit=made.commit, root=run.root)
            for run in runs
            for made in past.admitted.get(run.run, ())
        ),
    )

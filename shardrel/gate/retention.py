"""What is retained, and why. Pure: no clock, no listing, no I/O. Source: schemas/SPEC.md#retention

Age counts in generations and transitions of the gate, never in time: a clock that is wrong deletes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shardrel.gate.past import Past
from shardrel.records.gate import GateBody


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the caller wants of retention.

    Attributes:
        generations: Of each alias that stay beside the current one.
        abandon: Publications, STAGED roots and ended runs that are given up.
        hits: Roots with a tombstone hit, which no rollback may lead to.
    """

    generations: int
    abandon: frozenset[str] = frozenset()
    hits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """An admitted checkpoint that stays."""

    run: str
    generation: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What stays, each with the pins that hold it, and what may go.

    Attributes:
        roots, snapshots: Pins by digest.
        commits: The last checkpoint of each finished run, and every one of an open run.
        retired: Candidates that nothing pins.
        publications, runs: Given up by this call.
        open_publications: Those that go on, each with the sequence at which it began.
        open_runs: Open runs, each with the sequence of its start or of its newest checkpoint: every attempt at one
            that is still being written began behind the second.
    """

    roots: Mapping[str, tuple[str, ...]]
    snapshots: Mapping[str, tuple[str, ...]]
    commits: Mapping[Commit, tuple[str, ...]]
    retired: tuple[str, ...]
    publications: tuple[str, ...]
    runs: tuple[str, ...]
    open_publications: Mapping[str, int]
    open_runs: Mapping[str, int]


def keep(body: GateBody, past: Past, wanted: Wanted) -> Kept:
    """Decide what is retained.

    A root stays for an alias that points to it, or pointed to it within the window; for an open run; for the last
    checkpoint of a finished run; and while it is STAGED. A snapshot stays for an unfinished publication, and every
    checkpoint for the run that admitted it while this is open.
    """
    publications = body.publications.keys() - wanted.abandon
    roots = _roots(body, past, wanted)
    return Kept(
        roots=roots,
        snapshots=_collected(
            (body.publications[name].snapshot, f"publication:{name}") for name in sorted(publications)
        ),
        commits={**_last_commits(past, wanted), **_open_commits(body, past)},
        retired=tuple(sorted(root for root in body.candidates if root not in roots)),
        publications=tuple(sorted(body.publications.keys() & wanted.abandon)),
        runs=tuple(sorted(run for run in past.ended.keys() & wanted.abandon if not past.ended[run].given_up)),
        open_publications={name: body.publications[name].sequence for name in sorted(publications)},
        open_runs={name: past.progress.get(name, run.sequence) for name, run in sorted(body.runs.items())},
    )


def holding(kept: Kept, *, since: int | None, release: bool) -> tuple[str, ...]:
    """What an object that nothing retained leads to has to wait for: whoever was writing when it was first seen so.

    It is not what makes a deletion sound (whoever ends a publication or admits a checkpoint looks whether something of
    it was condemned): it keeps that from happening to those who are still at it.

    Args:
        kept: What is retained.
        since: Sequence of the state in which it was first seen without a name; None for now.
        release: A root that may go leads to it, so no running job is about to name it.
    """
    publications = [f"publication:{name}" for name, begun in kept.open_publications.items() if not _after(begun, since)]
    runs = [] if release else [f"run:{name}" for name, at in kept.open_runs.items() if not _after(at, since)]
    return (*publications, *runs)


def _after(sequence: int, since: int | None) -> bool:
    return since is not None and sequence > since


def _last_commits(past: Past, wanted: Wanted) -> dict[Commit, tuple[str, ...]]:
    return {
        Commit(run=run, generation=ended.last.generation, digest=ended.last.commit): (f"run:{run}:finished",)
        for run, ended in sorted(past.ended.items())
        if ended.last is not None and _finished(past, run, wanted)
    }


def _open_commits(body: GateBody, past: Past) -> dict[Commit, tuple[str, ...]]:
    return {
        Commit(run=run, generation=one.generation, digest=one.commit): (f"run:{run}",)
        for run in sorted(body.runs)
        for one in past.admitted.get(run, ())
    }


def _roots(body: GateBody, past: Past, wanted: Wanted) -> Mapping[str, tuple[str, ...]]:
    pins = [(alias.root, f"alias:{name}") for name, alias in sorted(body.aliases.items())]
    pins += _window(body, past, wanted)
    pins += [(root, f"run:{name}") for name, run in sorted(body.runs.items()) for root in run.roots]
    pins += [
        (root, f"checkpoint:{run}")
        for run, ended in sorted(past.ended.items())
        for root in ended.roots
        if ended.last is not None and root not in wanted.hits and _finished(past, run, wanted)
    ]
    pins += [
        (root, "candidate:STAGED")
        for root, candidate in sorted(body.candidates.items())
        if candidate.state == "STAGED" and root not in wanted.abandon
    ]
    return _collected((root, pin) for root, pin in pins if root in body.candidates)


def _window(body: GateBody, past: Past, wanted: Wanted) -> Sequence[tuple[str, str]]:
    """Roots that a rollback of an alias may lead to."""
    return [
        (move.root, f"window:{move.alias}@{move.generation}")
        for move in past.moves
        if move.root not in wanted.hits
        and body.aliases[move.alias].generation - wanted.generations
        <= move.generation
        < body.aliases[move.alias].generation
    ]


def _finished(past: Past, run: str, wanted: Wanted) -> bool:
    ended = past.ended[run]
    return ended.outcome == "finished" and not ended.given_up and run not in wanted.abandon


def _collected(pins: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for subject, pin in pins:
        found.setdefault(subject, []).append(pin)
    return {subject: tuple(names) for subject, names in found.items()}

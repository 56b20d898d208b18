"""What becomes of objects that nothing retained leads to. Pure. Source: schemas/SPEC.md#retention"""

from collections.abc import Sequence
from dataclasses import dataclass

from shardrel.gate.retention import Kept, holding
from shardrel.records.gate import GateBody
from shardrel.records.sweep import Condemned, Unnamed

_MOST = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What may be deleted at one state of the gate.

    Attributes:
        objects: At most 100,000, by digest.
        roots: Candidates that leave the state with them.
        unnamed: At most as many that nothing leads to either, and that stay for now.
        waiting: What they stay for: publications and runs that were open when they were first seen so, and other
            datasets of the store.
        held: Roots that nothing pins, and that stay in the store for as long.
    """

    objects: tuple[Condemned, ...] = ()
    roots: tuple[str, ...] = ()
    unnamed: tuple[Unnamed, ...] = ()
    waiting: tuple[str, ...] = ()
    held: tuple[str, ...] = ()

    @property
    def snapshots(self) -> tuple[str, ...]:
        """Declared and not published: they stay until the collection after the one that first finds them so."""
        return tuple(one.digest for one in self.unnamed if one.snapshot)


@dataclass(frozen=True, slots=True)
class Loose:
    """An object that nothing retained leads to.

    Attributes:
        roots: Roots that may go and lead to it.
        release: Whether a root leads to it that may go, or that went.
        since: Sequence of the state that an earlier plan first saw it so in.
    """

    digest: str
    version: str
    snapshot: bool
    roots: frozenset[str]
    release: bool
    since: int | None


def sort_out(body: GateBody, kept: Kept, loose: Sequence[Loose], fresh: frozenset[str]) -> Found:
    """What may go now, and what stays until those have ended who may be about to name it.

    Args:
        body: The gate.
        kept: What is retained.
        loose: What nothing of that leads to, by digest.
        fresh: Snapshots that nobody had the time to publish, with what they name: they stay too.
    """
    objects: list[Condemned] = []
    unnamed: list[Unnamed] = []
    waiting: dict[str, None] = {}
    broken: set[str] = set()
    for one in loose:
        held = holding(kept, since=one.since, release=one.release)
        waiting |= dict.fromkeys(held)
        if held or one.digest in fresh:
            unnamed.append(_let_be(body, one))
        elif len(objects) < _MOST:
            objects.append(Condemned(digest=one.digest, version=one.version))
            broken |= one.roots
    return Found(
        objects=tuple(objects),
        roots=_leaving(body, kept, broken, {one.digest for one in unnamed}),
        unnamed=tuple(unnamed[:_MOST]),
        waiting=tuple(waiting),
    )


def _let_be(body: GateBody, one: Loose) -> Unnamed:
    since = body.sequence if one.since is None else one.since
    return Unnamed(digest=one.digest, version=one.version, since=since, snapshot=one.snapshot, release=one.release)


def _leaving(body: GateBody, kept: Kept, broken: set[str], stays: set[str]) -> tuple[str, ...]:
    """Roots that leave the state: at the latest with the first of their objects.

    A revoked one stays known, and is named again only where something of it is deleted.
    """
    return tuple(
        root
        for root in kept.retired
        if root in broken or (root not in stays and body.candidates[root].state != "INVALID")
    )

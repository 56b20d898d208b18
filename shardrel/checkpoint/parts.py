"""The part of a checkpoint that one rank stores, and the whole that all parts make. Source: schemas/SPEC.md#checkpoints.

``save`` takes these steps with the ranks of a job. One process that holds the states of several ranks takes them one
after the other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardrel.checkpoint.attempts import Attempt, Committed, commit, manifest_of
from shardrel.checkpoint.coverage import Box
from shardrel.checkpoint.cut import Captured, Mixed, agree
from shardrel.checkpoint.manifest import tensor_entries
from shardrel.checkpoint.ownership import Owned, owned_regions
from shardrel.checkpoint.replicas import NO_OWNERS, Owners, check_owners, owned_parts, with_parts
from shardrel.checkpoint.tensors import CapturedState, elements_of, replica_digest
from shardrel.checkpoint.writing import Kept, Piece, Stamp, write_pieces
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.records.checkpoint import Cut, OrderParameters, Region
from shardrel.records.fields import Count, DigestField, Name, Record
from shardrel.store.port import Store
from shardrel.trust.signer import Signer

_AT_MOST_NAMED = 10


class Stored(Record, frozen=True, kw_only=True):
    """A region, with the position of its tensor in the list of tensors."""

    tensor: Count
    region: Region


class RankReport(Record, frozen=True, kw_only=True):
    """What one rank captured and stored, once it is durable.

    Attributes:
        owned: Trees at the paths that this rank owns by declaration.
    """

    attempt: Name
    cut: Cut
    replica: DigestField
    stored: tuple[Stored, ...]
    owned: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A rank of a job of so many, and who owns what by declaration."""

    rank: int
    world_size: int
    owners: Owners = field(default_factory=dict)


def write_part(
    store: Store, captured: CapturedState, seat: Seat, attempt: Attempt, cut: Cut, kept: Kept | None = None
) -> RankReport:
    """Store the regions of a state that this rank owns.

    Args:
        store: Where the run's objects are.
        captured: The state, equal on all ranks.
        seat: Decides what the rank owns.
        attempt: What the coordinator opened.
        cut: The moment.
        kept: What this process saved last of this run; None writes everything.

    Raises:
        IntegrityError, OutcomeUnknownError, UnavailableError: What the store says.

    Effects: objects, durable on return.
    """
    check_owners(seat.owners, seat.world_size)
    owned = owned_regions(captured.specs, seat.rank, seat.world_size, seat.owners)
    replicas = tuple(range(seat.world_size))
    pieces = [_piece(captured, one, replicas) for one in owned]
    stamp = Stamp(rank=seat.rank, attempt=attempt.attempt, step=cut.step, parent=attempt.parent)
    written = write_pieces(store, pieces, stamp, kept or Kept())
    stored = tuple(Stored(tensor=owned[one.piece].tensor, region=one.region) for one in written)
    return RankReport(
        attempt=attempt.attempt,
        cut=cut,
        replica=replica_digest(captured, seat.owners),
        stored=stored,
        owned={
            path: t for path, t in owned_parts(captured.trees, seat.owners).items() if seat.owners[path] == seat.rank
        },
    )


Sums = Callable[[], Sequence[Mapping[str, str]]]
"""Asks all ranks for the checksums of what they hold, piece by piece."""


def check_one_moment(reports: Sequence[RankReport], world_size: int, sums: Sums | None = None) -> None:
    """All ranks captured one moment of one state.

    Args:
        reports: Of all ranks.
        world_size: How many there should be.
        sums: Called where copies differ, to name the pieces.

    Raises:
        RunFailedError: ``checkpoint.cut`` with the ranks that did not; ``checkpoint.replica`` with those whose copies are
            other ones, and the pieces.

    Ranks: all, where ``sums`` asks them.
    """
    captures = [
        Captured(rank=rank, attempt=report.attempt, cut=report.cut, replica=report.replica)
        for rank, report in enumerate(reports)
    ]
    verdict = agree(captures, world_size)
    if isinstance(verdict, Mixed) and verdict.field == "replica":
        raise _copies_differ(verdict, () if sums is None else sums())
    if isinstance(verdict, Mixed):
        raise RunFailedError(
            ErrorCode.CHECKPOINT_CUT,
            f"ranks hold another {verdict.field} than the coordinator, so there is no one state to save",
            field=verdict.field,
            ranks=[str(rank) for rank in verdict.ranks],
        )


def _copies_differ(verdict: Mixed, sums: Sequence[Mapping[str, str]]) -> RunFailedError:
    names = sorted({name for of in sums for name in {*of, *sums[0]} if of.get(name) != sums[0].get(name)})
    what = f": {', '.join(names[:_AT_MOST_NAMED])}" if names else ""
    return RunFailedError(
        ErrorCode.CHECKPOINT_REPLICA,
        f"ranks hold other copies than the coordinator, so there is no one state to save{what}",
        field="replica",
        ranks=[str(rank) for rank in verdict.ranks],
        pieces=names[:_AT_MOST_NAMED],
    )


def commit_parts(
    store: Store,
    dataset: str,
    attempt: Attempt,
    captured: CapturedState,
    reports: Sequence[RankReport],
    order: OrderParameters | None,
    signer: Signer,
    owners: Owners = NO_OWNERS,
) -> Committed:
    """Manifest, commit record and gate, of parts that ``check_one_moment`` has passed.

    Raises:
        RefusedError, ConflictError: As ``manifest_of`` and ``commit``.

    Effects: the manifest, the commit record, the gate's head.
    Ranks: the coordinator.
    """
    stored = [(one.tensor, one.region) for report in reports for one in report.stored]
    entries = tensor_entries(captured.specs, stored)
    trees = with_parts(captured.trees, {path: reports[rank].owned[path] for path, rank in owners.items()})
    manifest = manifest_of(attempt, reports[0].cut, order, entries, trees, len(reports), owners)
    return commit(store, dataset, manifest, attempt, signer)


def _piece(captured: CapturedState, owned: Owned, replicas: tuple[int, ...]) -> Piece:
    tensor = captured.tensors[owned.tensor]
    whole = Box((0,) * tensor.ndim, tuple(tensor.shape))
    return Piece(
        box=owned.box,
        item_bytes=captured.specs[owned.tensor].item_bytes,
        elements=elements_of(tensor, whole.offsets),
        replicas=replicas,
    )

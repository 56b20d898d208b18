"""Permits: named, opened and closed. Pure. Source: schemas/SPEC.md#operations (permits)."""

from collections.abc import Callable
from typing import Literal

from msgspec.structs import replace

from shardrel.digest import Domain, domain_hash, lp, u64
from shardrel.records.gate import Closed, GateBody, Permit
from shardrel.records.transition import Effects

Kind = Literal["publication", "run"]


def open_permit(body: GateBody, kind: Kind, subject: str, root: str, generation: int) -> tuple[GateBody, Effects]:
    """Open a permit at the body's sequence and fences; one that the same subject held closes.

    Args:
        body: The next body, whose sequence already is the new one.
        kind: What the permit lets proceed.
        subject: The alias of a publication, or the run.
        root: What it is bound to.
        generation: Of the alias.

    Returns:
        The body with the permit, and the effects to record.
    """
    permit = Permit(
        kind=kind,
        subject=subject,
        root=root,
        generation=generation,
        tombstone_watermark=body.tombstones.watermark,
        benchmark_fence=body.benchmarks.watermark,
        sequence=body.sequence,
    )
    name = permit_name(body, kind, subject, body.sequence)
    closed = [key for key, old in body.permits.items() if (old.kind, old.subject) == (kind, subject)]
    kept = {key: old for key, old in body.permits.items() if key not in closed}
    effects = Effects(
        generation=generation,
        root=root,
        opened_permit=name,
        tombstone_watermark=permit.tombstone_watermark,
        benchmark_fence=permit.benchmark_fence,
        closed_permits=tuple(closed),
    )
    return replace(body, permits={**kept, name: permit}), effects


def close_permits(
    body: GateBody, wanted: Callable[[str, Permit], bool], reason: Closed
) -> tuple[GateBody, tuple[str, ...]]:
    """Close the wanted permits; their runs stay, and keep the reason."""
    closed = tuple(sorted(name for name, permit in body.permits.items() if wanted(name, permit)))
    gone = frozenset(closed)
    runs = {
        run: replace(state, permit=None, closed=reason) if state.permit in gone else state
        for run, state in body.runs.items()
    }
    permits = {name: permit for name, permit in body.permits.items() if name not in gone}
    return replace(body, permits=permits, runs=runs), closed


def permit_name(body: GateBody, kind: Kind, subject: str, sequence: int) -> str:
    """The permit that a subject was given at a sequence of this gate; no other transition can give that name."""
    words = (b"permit", body.gate_id.encode(), body.dataset.encode(), kind.encode(), subject.encode())
    return domain_hash(Domain.ID, *(lp(word) for word in words), u64(sequence)).hex()

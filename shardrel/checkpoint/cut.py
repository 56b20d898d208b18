"""Are the captures of all ranks of one moment? Source: schemas/SPEC.md#checkpoints."""

from collections.abc import Sequence
from dataclasses import dataclass

from shardrel.records.checkpoint import CheckpointManifest, Cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """What one rank says it captured.

    Attributes:
        replica: Digest of the rank's own copy of everything that all ranks are to hold alike.
    """

    rank: int
    attempt: str
    cut: Cut
    replica: str


@dataclass(frozen=True, slots=True)
class OneMoment:
    """All ranks captured the same attempt, cut and replicated state."""


@dataclass(frozen=True, slots=True)
class Mixed:
    """``field`` differs from the coordinator's on ``ranks``."""

    field: str
    ranks: tuple[int, ...]


def agree(captures: Sequence[Captured], world_size: int) -> OneMoment | Mixed:
    """Compare every rank's capture with the coordinator's, rank 0."""
    by_rank = {capture.rank: capture for capture in captures}
    missing = tuple(rank for rank in range(world_size) if rank not in by_rank)
    if missing:
        return Mixed("rank", missing)
    first = by_rank[0]
    for field in ("attempt", "cut", "replica"):
        other = tuple(r for r in sorted(by_rank) if getattr(by_rank[r], field) != getattr(first, field))
        if other:
            return Mixed(field, other)
    return OneMoment()


def stray_regions(manifest: CheckpointManifest) -> tuple[str, ...]:
    """Names of tensors with a region of another attempt or step than the manifest's."""
    return tuple(
        entry.name
        for entry in manifest.tensors
        if any(region.attempt != manifest.attempt or region.step != manifest.cut.step for region in entry.regions)
    )

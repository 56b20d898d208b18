"""Duty of a rank and sizes of a split: pure rules over a root manifest. Source: schemas/SPEC.md#runs."""

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.release import Release

MENTIONED = 20
"""So many names that there are instead of one that is not."""


def duty(shards: int, rank: int, world_size: int) -> range:
    """Numbers of the shards that a rank verifies before step 0."""
    return range(rank, shards, world_size)


def effective_split(release: Release, split: str | None) -> str | None:
    """Null when the split is the whole release, so that no row list is needed.

    Raises:
        InvalidInputError: ``input.invalid`` when no record is of the split.
    """
    if split is None:
        return None
    if split not in release.totals.splits:
        there = sorted(release.totals.splits)
        message = f"the release has no split {split!r}; it has: {', '.join(there[:MENTIONED])}"
        raise InvalidInputError(ErrorCode.INPUT_INVALID, message, split=split, splits=there[:MENTIONED])
    return None if len(release.totals.splits) == 1 else split


def split_records(release: Release, split: str | None) -> int:
    """Records of a split as the root manifest declares them; all of them for null."""
    return release.totals.records if split is None else release.totals.splits[split].records

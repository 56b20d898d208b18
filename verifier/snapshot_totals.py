"""The totals that a snapshot gives, against its parts and against a release of it. Pure. Source: schemas/SPEC.md#snapshot

Its parts tell the records of each split. Tokens they do not tell: those are compared with what a release holds whose
members are exactly the declared ones.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from shardrel.errors import ErrorCode
from shardrel.records.snapshot import Snapshot
from verifier.leaves import codes
from verifier.tally import Spot


@dataclass(slots=True)
class Listing:
    """What the parts of a snapshot list.

    Attributes:
        records: Tuples by split.
        left_out: Splits that a publisher leaves tuples out of.
    """

    records: dict[str, int] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)

    def add(self, other: "Listing") -> None:
        """Take in what another part lists."""
        for name, count in other.records.items():
            self.records[name] = self.records.get(name, 0) + count
        self.left_out |= other.left_out


def listing_of(splits: Any, kept: Any | None) -> Listing:
    """What one part lists.

    Args:
        splits: String array, or dictionary of strings, without nulls.
        kept: Mask of the tuples that a publisher does not leave out; None for all of them.
    """
    return Listing(
        records=_counted(splits),
        left_out=set() if kept is None else set(_counted(splits.filter(pa.array(~kept)))),
    )


def _counted(splits: Any) -> dict[str, int]:
    folded = splits if pa.types.is_dictionary(splits.type) else splits.dictionary_encode()
    counts = np.bincount(codes(folded), minlength=len(folded.dictionary))
    found: dict[str, int] = {}
    for name, count in zip(folded.dictionary.to_pylist(), counts.tolist(), strict=True):
        if count:
            found[name] = found.get(name, 0) + count
    return found


def sums(snapshot: Snapshot, subject: str) -> Iterator[Spot]:
    """The totals are the sums over the splits."""
    splits = snapshot.splits.values()
    if snapshot.records != sum(one.records for one in splits):
        yield _spot(subject, "the records of its splits do not add up")
    if snapshot.tokens != sum(one.tokens for one in splits):
        yield _spot(subject, "the tokens of its splits do not add up")


def records(snapshot: Snapshot, subject: str, listing: Listing) -> Iterator[Spot]:
    """Records by split are those that the parts list; a split that does not occur is none."""
    declared = {name: one.records for name, one in snapshot.splits.items()}
    if wrong := _unlike(declared, listing.records):
        yield _spot(subject, "its splits have other records than its parts list", wrong)


def tokens(
    snapshot: Snapshot, subject: str, seen: Mapping[str, tuple[int, int]], left_out: Iterable[str]
) -> Iterator[Spot]:
    """Tokens by split are those of the members; of a split that lost members to a log they are no fewer.

    Args:
        seen: Records and tokens by split of a release that holds the declared members.
        left_out: Splits that a publisher leaves members out of.
    """
    declared = {name: one.tokens for name, one in snapshot.splits.items()}
    found = {name: seen.get(name, (0, 0))[1] for name in declared}
    for name in set(left_out) & declared.keys():
        found[name] = max(found[name], declared[name])
    if wrong := _unlike(declared, found):
        yield _spot(subject, "its splits have other tokens than their members", wrong)


def blocks(snapshot: Snapshot, subject: str, found: Sequence[str]) -> Iterator[Spot]:
    """The blocks of the tree are those of a release that holds exactly the declared members."""
    if tuple(found) != snapshot.block_roots:
        yield _spot(subject, "its block roots are not those of its members' tree")


def _unlike(one: Mapping[str, int], other: Mapping[str, int]) -> int:
    return sum(one.get(name) != other.get(name) for name in one.keys() | other.keys())


def _spot(subject: str, detail: str, count: int = 1) -> Spot:
    return Spot(code=ErrorCode.SNAPSHOT_INVALID, subject=subject, count=count, detail=detail)

"""Difference of two memberships, range by range. Source: schemas/SPEC.md#snapshot.

The publisher's side: does the source still hold what the snapshot declared? The verifier has a
program of its own for the other side.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from shardrel.membership.columns import Members, plain, same_strings, unequal

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Counts of members: declared and not found, found and not declared, found with other fields."""

    missing: int = 0
    extra: int = 0
    changed: int = 0

    def __add__(self, other: "Difference") -> "Difference":
        return Difference(
            missing=self.missing + other.missing, extra=self.extra + other.extra, changed=self.changed + other.changed
        )

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """Positions of members: of the declared ones that are missing, of the found ones that are extra or changed."""

    missing: Positions
    extra: Positions
    changed: Positions


def difference(declared: Members, found: Members) -> Difference:
    """Compare the members of one range of sample ids; arguments as of ``apart``."""
    if _same(declared, found):
        return Difference()
    where = apart(declared, found)
    return Difference(missing=len(where.missing), extra=len(where.extra), changed=len(where.changed))


def apart(declared: Members, found: Members) -> Apart:
    """Where the members of one range of sample ids differ.

    Args:
        declared: Of the snapshot, sample ids unique and growing.
        found: Of the source, in canonical order; a repeated sample id is an extra member.
    """
    place = pc.index_in(plain(found.sample_ids), plain(declared.sample_ids))
    known = np.flatnonzero(pc.is_valid(place).to_numpy(zero_copy_only=False))
    at = place.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    seen, first = np.unique(at, return_index=True)
    matched = known.take(first)
    return Apart(
        missing=np.setdiff1d(np.arange(len(declared)), seen),
        extra=np.setdiff1d(np.arange(len(found)), matched),
        changed=matched[_changed(declared.take(seen), found.take(matched))],
    )


def _same(left: Members, right: Members) -> bool:
    return (
        len(left) == len(right)
        and np.array_equal(left.digests, right.digests)
        and all(same_strings(a, b) for a, b in zip(left.strings, right.strings, strict=True))
    )


def _changed(left: Members, right: Members) -> npt.NDArray[np.bool_]:
    changed: npt.NDArray[np.bool_] = (left.digests != right.digests).any(axis=1)
    for a, b in zip(left.strings[1:], right.strings[1:], strict=True):
        changed |= unequal(a, b)
    return changed

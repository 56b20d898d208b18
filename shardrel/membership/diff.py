"""Difference of two memberships, range by range. Source: schemas/SPEC.md#snapshot.

The publisher's side: does the source still hold what the snapshot declared? The verifier has a
program of its own for the other side.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from shardrel.membership.columns import Members, plain, same_strings, unequal


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


def difference(declared: Members, found: Members) -> Difference:
    """Compare the members of one range of sample ids.

    Args:
        declared: Of the snapshot, sample ids unique and growing.
        found: Of the source, in canonical order; a repeated sample id is an extra member.
    """
    if _same(declared, found):
        return Difference()
    place = pc.index_in(plain(found.sample_ids), plain(declared.sample_ids))
    known = np.asarray(pc.is_valid(place).to_numpy(zero_copy_only=False), np.bool_)
    at = place.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    seen, first = np.unique(at, return_index=True)
    changed = _changed(declared.take(seen), found.filter(known).take(first))
    return Difference(
        missing=len(declared) - len(seen), extra=len(found) - len(seen), changed=int(np.count_nonzero(changed))
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

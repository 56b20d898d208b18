"""The multiset difference of one range: declared tuples against those that shards hold.

Source: schemas/SPEC.md#verification (4)
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from shardrel.canonical.sha import Bytes32
from shardrel.errors import ErrorCode
from verifier.align import aligned
from verifier.arrays import moved
from verifier.leaves import canonical_order, codes, plain
from verifier.parts import Listed
from verifier.seen import Seen
from verifier.tally import Spot

Mask = npt.NDArray[np.bool_]
_FIELD_CODES = (ErrorCode.MEMBER_SOURCE_ID, ErrorCode.MEMBER_SOURCE_VERSION, ErrorCode.MEMBER_SPLIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What was seen, in canonical order, and how it differs from what was declared."""

    seen: Seen
    spots: list[Spot]


def compare(
    declared: Listed,
    seen: Seen,
    snapshot: str,
    shard_id: Callable[[int], str],
    proposed: npt.NDArray[np.int64] | None = None,
) -> Compared:
    """Match the tuples of one range by sample id and classify every difference.

    Args:
        declared: Distinct sample ids in order.
        snapshot: Subject of what is missing.
        shard_id: Name of a shard by its number, the subject of everything else.
        proposed: Positions among the seen tuples in which they may match; tried first, never believed.
    """
    if (order := aligned(declared.ids, seen.ids, proposed)) is not None:
        if _same(declared, seen, order):
            return Compared(seen=_as_declared(declared, seen, order), spots=[])
        seen = seen.ordered(order)
        return Compared(seen=seen, spots=list(_substituted(declared, seen, np.arange(len(declared)), shard_id)))
    at = pc.fill_null(pc.index_in(seen.ids, value_set=declared.ids), -1).to_numpy().astype(np.int64)
    seen_order = canonical_order(seen.ids, seen.context, seen.content)
    seen, at = seen.ordered(seen_order), at[seen_order]
    spots = [*_missing(declared, at, snapshot), *_spots(ErrorCode.MEMBER_EXTRA, at < 0, seen, shard_id)]
    spots += _spots(ErrorCode.MEMBER_DUPLICATE, _repeated(at), seen, shard_id)
    return Compared(seen=seen, spots=[*spots, *_substituted(declared, seen, at, shard_id)])


def _same(declared: Listed, seen: Seen, order: npt.NDArray[np.int64]) -> bool:
    """Whether tuples whose sample ids match one to one are equal; the usual case, without moving strings."""
    if not np.array_equal(_words(moved(seen.content, order)), _words(declared.content)):
        return False
    pairs = list(zip(seen.context, declared.context, strict=True))
    if all(_only(have) is not None and _only(have) == _only(want) for have, want in pairs):
        return True
    at = np.empty(len(order), np.int64)
    at[order] = np.arange(len(order))
    return not any(differing(have, want, at).any() for have, want in pairs)


def _as_declared(declared: Listed, seen: Seen, order: npt.NDArray[np.int64]) -> Seen:
    return Seen(
        ids=declared.ids,
        context=declared.context,
        content=declared.content,
        leaves=moved(seen.leaves, order),
        shards=seen.shards[order],
        rows=seen.rows[order],
    )


def _missing(declared: Listed, at: npt.NDArray[np.int64], snapshot: str) -> Iterator[Spot]:
    absent = np.ones(len(declared), bool)
    absent[at[at >= 0]] = False
    count = int(np.count_nonzero(absent))
    if count:
        first = declared.ids[int(np.argmax(absent))].as_py()
        yield Spot(code=ErrorCode.MEMBER_MISSING, subject=snapshot, count=count, sample_id=first)


def _repeated(at: npt.NDArray[np.int64]) -> Mask:
    """All but the first of the seen tuples with one declared sample id; those stand beside each other."""
    again = np.zeros(len(at), bool)
    again[1:] = (at[1:] == at[:-1]) & (at[1:] >= 0)
    return again


def _substituted(
    declared: Listed, seen: Seen, at: npt.NDArray[np.int64], shard_id: Callable[[int], str]
) -> Iterator[Spot]:
    known = at >= 0
    if not known.any():
        return
    every = bool(known.all())
    place = at if every else np.where(known, at, 0)
    content = (_words(seen.content) != _words(moved(declared.content, place))).any(axis=1)
    yield from _spots(ErrorCode.MEMBER_CONTENT, content & known, seen, shard_id)
    for code, have, want in zip(_FIELD_CODES, seen.context, declared.context, strict=True):
        yield from _spots(code, differing(have, want, place) & known, seen, shard_id)


def differing(have: Any, want: Any, place: npt.NDArray[np.int64]) -> Mask:
    """Rows i where string ``have[i]`` is not ``want[place[i]]``; neither has nulls."""
    if (one := _only(have)) is not None and one == _only(want):
        return np.zeros(len(place), bool)
    if pt.is_dictionary(have.type) and pt.is_dictionary(want.type):
        entries = want.dictionary.unique()
        wanted = pc.index_in(want.dictionary, value_set=entries).to_numpy()[codes(want)]
        found = pc.fill_null(pc.index_in(have.dictionary, value_set=entries), -1).to_numpy()[codes(have)]
        unlike: Mask = found != wanted[place]
    else:
        unlike = pc.not_equal(plain(have), plain(want).take(pa.array(place))).to_numpy(zero_copy_only=False)
    return unlike


def _only(values: Any) -> str | None:
    """The string that all rows have, where a dictionary says so."""
    if pt.is_dictionary(values.type) and len(values.dictionary) == 1:
        return str(values.dictionary[0].as_py())
    return None


def _spots(code: ErrorCode, mask: Mask, seen: Seen, shard_id: Callable[[int], str]) -> Iterator[Spot]:
    """One observation a shard, with its first row."""
    places = np.flatnonzero(mask)
    for shard in np.unique(seen.shards[places]):
        here = places[seen.shards[places] == shard]
        first = int(here[np.argmin(seen.rows[here])])
        yield Spot(
            code=code,
            subject=shard_id(int(shard)),
            count=len(here),
            row=int(seen.rows[first]),
            sample_id=seen.ids[first].as_py(),
        )


def _words(matrix: Bytes32) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(matrix).view(np.uint64)

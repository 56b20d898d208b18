"""Canonical order of members, and ranges of sample ids. Source: schemas/SPEC.md#member-tuples.

Arrow compares strings by their unsigned bytes, which is the order asked for. Sample ids are
unique in a sound release, so the other fields are looked at only where ids are equal.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.membership.columns import Members, Order, plain


def canonical_order(members: Members) -> Order:
    """Positions of the members in canonical order; equal tuples keep their order."""
    order, twins = id_order(members.sample_ids)
    for first, last in twins:
        order[first:last] = _by_other_fields(members, order[first:last])
    return order


def id_order(sample_ids: Any) -> tuple[Order, list[tuple[int, int]]]:
    """Positions of sample ids in their order, and the half-open runs in it of ids that are equal."""
    ids = plain(sample_ids)
    if grows(ids):
        return np.arange(len(ids), dtype=np.int64), []
    order: Order = pc.sort_indices(ids).to_numpy().astype(np.int64)
    return order, _equal_runs(ids.take(pa.array(order)))


def grows(ids: Any) -> bool:
    """Whether every string of an array without nulls is above the one before it."""
    return len(ids) < 2 or bool(pc.all(pc.greater(ids.slice(1), ids.slice(0, len(ids) - 1))).as_py())


def range_of(ids: Any, borders: Any) -> npt.NDArray[np.int64]:
    """Number of the range of each sample id; range i ends with the i-th border, the last one is open.

    Args:
        ids: Plain string array without nulls.
        borders: The last sample id of each range, growing.
    """
    inner = borders.slice(0, len(borders) - 1)
    if not len(inner):
        return np.zeros(len(ids), np.int64)
    if grows(ids) and grows(
        inner
    ):  # as in most sources; then few borders are looked for among many ids, and not the other way round
        ends = pc.search_sorted(ids, inner, side="right").to_numpy().astype(np.int64)
        return np.repeat(np.arange(len(inner) + 1), np.diff(ends, prepend=0, append=len(ids)))
    numbers: npt.NDArray[np.int64] = pc.search_sorted(inner, ids, side="left").to_numpy().astype(np.int64)
    return numbers


def _equal_runs(ids: Any) -> list[tuple[int, int]]:
    """Half-open ranges of sorted strings that are equal, two or more each."""
    if len(ids) < 2:
        return []
    equal = pc.equal(ids.slice(1), ids.slice(0, len(ids) - 1)).to_numpy(zero_copy_only=False).astype(np.int8)
    edges = np.diff(np.concatenate(([0], equal, [0])))
    firsts, lasts = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) + 1
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _by_other_fields(members: Members, rows: Order) -> Order:
    group = members.take(rows)
    sources, versions, splits = [[text.encode() for text in plain(column).to_pylist()] for column in group.strings[1:]]
    digests = [digest.tobytes() for digest in group.digests]
    keys = list(zip(sources, versions, digests, splits, strict=True))
    return rows[sorted(range(len(keys)), key=keys.__getitem__)]

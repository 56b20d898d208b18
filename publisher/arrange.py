"""Canonical order over the whole release, range by range, and its difference from the snapshot.

The parts of the snapshot cut the sample ids into ranges; each range is sorted and compared on its
own, so no sort sees more than one part's members. Source: schemas/SPEC.md#publish
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.scatter import Numbers
from publisher.stage import Staged, as_span, rows_by_piece, rows_of
from shardrel.membership.columns import Members, concat
from shardrel.membership.diff import Difference, difference
from shardrel.membership.order import canonical_order, id_order, range_of

Records = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Sample ids of one range's members in canonical order, and the numbers of their records."""

    sample_ids: Any
    records: Records


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where each record goes.

    Attributes:
        shards: For each range, the number of the shard of each of its members.
        rows: For each range, the row of each of its members in that shard.
        by_shard: For each shard, its record numbers in canonical order.
    """

    shards: tuple[npt.NDArray[np.uint32], ...]
    rows: tuple[npt.NDArray[np.uint32], ...]
    by_shard: tuple[Records, ...]


def ranges(staged: Staged, borders: Sequence[str], pool: Executor) -> Iterator[Range]:
    """Sort each range of sample ids.

    Args:
        staged: The records.
        borders: Last sample id of each part of the snapshot.
        pool: Where ranges are worked on at the same time; they come back in order.
    """
    numbers = _range_numbers(staged, pa.array(borders, pa.string()), pool)
    by_range = _group(numbers, len(borders))

    def one(number: int) -> Range:
        records = by_range[number]
        ids = _ids_of(staged, records)
        order, twins = id_order(ids)
        if twins:
            order = canonical_order(members_of(staged, records))
        if as_span(order) is None:
            ids, records = ids.take(pa.array(order)), records.take(order)
        return Range(sample_ids=_own(ids), records=records)

    return iter(pool.map(one, range(len(borders))))


def differences(
    staged: Staged, ordered: Sequence[Range], declared: Callable[[int], Members], pool: Executor
) -> Iterator[Difference]:
    """Compare each range, member by member.

    Args:
        staged: The records.
        ordered: All ranges.
        declared: Reads the members that the snapshot declares in one range.
        pool: Where ranges are compared at the same time; they come back in order.
    """

    def one(number: int) -> Difference:
        records = ordered[number].records
        grown = np.sort(records)
        return difference(declared(number), members_of(staged, grown).take(np.searchsorted(grown, records)))

    return iter(pool.map(one, range(len(ordered))))


def place(ordered: Sequence[Range], numbers: Numbers, count: int) -> Placement:
    """Follow the canonical order into the shards, range by range.

    Args:
        ordered: All ranges.
        numbers: Shard number of each record, by record number.
        count: How many shards there are.
    """
    filled = np.zeros(count, np.int64)
    shards, rows, runs = [], [], []
    for part in ordered:
        along = rows_of(numbers, part.records)
        inside = np.argsort(along, kind="stable")
        counts = np.bincount(along, minlength=count)
        here = np.empty(len(along), np.uint32)
        here[inside] = np.arange(len(along)) + np.repeat(filled - (np.cumsum(counts) - counts), counts)
        filled += counts
        shards.append(along.astype(np.uint32))
        rows.append(here)
        runs.append(np.split(part.records.take(inside), np.cumsum(counts)[:-1]))
    by_shard = tuple(np.concatenate(pieces) for pieces in zip(*runs, strict=True))
    return Placement(shards=tuple(shards), rows=tuple(rows), by_shard=by_shard)


def _range_numbers(staged: Staged, borders: Any, pool: Executor) -> Records:
    def one(piece: int) -> Records:
        return range_of(staged.sample_ids(piece), borders)

    return np.concatenate([np.zeros(0, np.int64), *pool.map(one, range(len(staged.pieces)))])


def _group(numbers: Records, groups: int) -> list[Records]:
    """Growing record numbers of each group."""
    order = np.argsort(numbers.astype(np.uint16) if groups <= 1 << 16 else numbers, kind="stable")
    return list(np.split(order, np.cumsum(np.bincount(numbers, minlength=groups))[:-1]))


def _ids_of(staged: Staged, records: Records) -> Any:
    parts = [_slice_or_take(staged.sample_ids(piece), rows) for piece, rows in rows_by_piece(staged, records)]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.string())


def _slice_or_take(ids: Any, rows: Records) -> Any:
    span = as_span(rows)
    return ids.take(pa.array(rows)) if span is None else ids.slice(span[0], span[1] - span[0])


def members_of(staged: Staged, records: Records) -> Members:
    """Tuple fields of records, by growing or ordered record numbers."""
    parts = [_some(staged.members(piece), rows) for piece, rows in rows_by_piece(staged, records)]
    return concat(parts) if parts else _none()


def _some(members: Members, rows: Records) -> Members:
    span = as_span(rows)
    return members.take(rows) if span is None else members.slice(*span)


def _own(ids: Any) -> Any:
    """A copy of the strings alone: a slice would keep its whole piece alive, or its file."""
    return pa.concat_arrays([ids, ids.slice(0, 0)])


def _none() -> Members:
    empty = pa.array([], pa.string())
    return Members(
        sample_ids=empty,
        source_ids=empty,
        source_versions=empty,
        splits=empty,
        digests=np.empty((0, 32), np.uint8),
    )

"""Which records of each piece fall into a shard.

A piece in a file is put into the order of the shards, so that the file is not read again for each of them.
One in memory stays as it is: its rows are picked when a shard is made, and no second copy of all records fills
memory. Source: schemas/SPEC.md#sharding
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.partition import shard_numbers
from publisher.pieces import Pieces
from publisher.stage import Staged, as_span
from shardrel.records.release import Sharding

Numbers = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """Which shards have records in a piece, growing, and where these begin; one more at the end.

    Attributes:
        rows: The piece's rows in the order of the shards; None where they lie so.
    """

    shards: Numbers
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.uint32] | None

    def of(self, shard: int) -> tuple[int, int]:
        """First and end of a shard's rows in the piece."""
        at = int(np.searchsorted(self.shards, np.array(shard, self.shards.dtype)))
        if at == len(self.shards) or self.shards[at] != shard:
            return 0, 0
        return int(self.starts[at]), int(self.starts[at + 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Scattered:
    """All records of a release, and where each shard's are."""

    pieces: Pieces
    cuts: Sequence[Cuts]

    def parts(self, shard: int) -> list[Any]:
        """A shard's records in the order of the source, as a table of each piece that has some."""
        return [self._part(*span) for span in self._spans(shard)]

    def some(self, shard: int, places: npt.NDArray[np.int64]) -> list[Any]:
        """A few of these records, by growing places among them, without picking the others."""
        found, before = [], 0
        for piece, first, end in self._spans(shard):
            low, high = np.searchsorted(places, (before, before + end - first))
            found.append(self._picked(piece, places[low:high] + (first - before)))
            before += end - first
        return found

    def _spans(self, shard: int) -> list[tuple[int, int, int]]:
        spans = [(piece, *cuts.of(shard)) for piece, cuts in enumerate(self.cuts)]
        return [(piece, first, end) for piece, first, end in spans if end > first]

    def _picked(self, piece: int, at: npt.NDArray[np.int64]) -> Any:
        rows = self.cuts[piece].rows
        return self.pieces[piece].take(pa.array(at if rows is None else rows.take(at)))

    def _part(self, piece: int, first: int, end: int) -> Any:
        rows = self.cuts[piece].rows
        if rows is None:
            return self.pieces[piece].slice(first, end - first)
        return _taken(self.pieces[piece], pa.array(rows[first:end]))

    @property
    def empty(self) -> Any:
        """A table without records."""
        return self.pieces[0].slice(0, 0)


def numbers_of(staged: Staged, sharding: Sharding) -> Numbers:
    """Shard number of each record, by record number."""
    narrow: type[np.unsignedinteger[Any]] = np.uint16 if sharding.shards <= 1 << 16 else np.uint32
    numbers: Numbers = np.empty(staged.records, narrow)
    for first, end in _spans(staged):
        numbers[first:end] = shard_numbers(staged.leaves[first:end], sharding.shards, sharding.seed)
    return numbers


def scatter(staged: Staged, numbers: Numbers, pool: Executor) -> Iterator[Cuts]:
    """Find each shard's records in each piece; they keep their order.

    Args:
        staged: Gives its pieces away: those in files are replaced, one after the other.
        numbers: Of ``numbers_of``.
        pool: Where that begins at once.

    Yields:
        Where the shards begin, piece by piece.

    Effects: replaces the files of spilled pieces.
    """
    spans = _spans(staged)

    def one(piece: int) -> Cuts:
        first, end = spans[piece]
        order = np.argsort(numbers[first:end], kind="stable")
        along: Numbers = numbers[first:end].take(order)
        starts = np.flatnonzero(np.concatenate(([True], along[1:] != along[:-1])))
        rows = None if as_span(order) else order.astype(np.uint32)
        if rows is not None and staged.pieces.in_file(piece):
            staged.pieces.replace(piece, staged.pieces[piece].take(pa.array(rows)))
            rows = None
        return Cuts(shards=along.take(starts), starts=np.append(starts, end - first), rows=rows)

    return iter(pool.map(one, range(len(spans))))


def _taken(table: Any, rows: Any) -> Any:
    """Some rows. Strings that lie in another column's memory, as sample ids do in that of their column, are picked once."""
    firsts: dict[Any, int] = {}
    places = [firsts.setdefault(_memory(column, at), len(firsts)) for at, column in enumerate(table.columns)]
    if len(firsts) == len(places):
        return table.take(rows)
    picked = table.select([places.index(at) for at in range(len(firsts))]).take(rows)
    return pa.table([picked.column(at) for at in places], schema=table.schema)


def _memory(column: Any, number: int) -> Any:
    """Where the strings of a column lie; equal for two columns only where all their values are."""
    if column.num_chunks != 1 or not pa.types.is_string(column.type):
        return number
    array = column.chunk(0)
    return array.offset, *(None if buffer is None else buffer.address for buffer in array.buffers())


def _spans(staged: Staged) -> list[tuple[int, int]]:
    return list(pairwise(staged.starts.tolist()))

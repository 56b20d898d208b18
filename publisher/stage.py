"""Staged records: everything that was read, in pieces of bounded size, in memory or spilled.

A piece holds records in the order of the source; who they are (leaf, digest, length, tokens) is
kept for all of them in a few flat arrays: 80 bytes a record, to which the canonical order adds 8 and
the sample id, shard numbers 2 or 4, rows by shard 4 and the placement 16. Source: schemas/SPEC.md#publish
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.pieces import Pieces
from publisher.splits import SplitCounter
from shardrel.canonical.sha import Bytes32
from shardrel.membership.columns import STORED_FIELDS, Digests, Members, combined
from shardrel.records.snapshot import SplitTotals

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Records of one batch, as they will be published.

    Attributes:
        members: Tuple fields of n records.
        leaves: Of their tuples, shape (n, 32), uint8.
        lengths: Bytes of their canonical encodings, shape (n,), int64.
        tokens: Shape (n,), int64.
        payload: ``pa.Table`` in physical types.
    """

    members: Members
    leaves: Bytes32
    lengths: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]
    payload: Any

    def to_table(self) -> Any:
        """Reserved columns, some still with a dictionary, then the payload."""
        strings = self.members.strings
        reserved = [pa.field(name, column.type) for name, column in zip(STORED_FIELDS, strings, strict=True)]
        return pa.table([*strings, *self.payload.columns], schema=pa.schema([*reserved, *self.payload.schema]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """All records of a release before they are put into shards.

    Attributes:
        pieces: Tables of the tuple's strings and the payload; record i lies in the piece that ``starts`` says.
        starts: Number of the first record of each piece, and the number of records at the end.
        leaves: Shape (n, 32); so is ``digests``. ``lengths`` and ``tokens`` have shape (n,).
        splits: Totals of each split that occurs.
    """

    pieces: Pieces
    starts: npt.NDArray[np.int64]
    leaves: Bytes32
    digests: Digests
    lengths: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]
    splits: dict[str, SplitTotals]

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.leaves)

    def sample_ids(self, piece: int) -> Any:
        """Sample ids of one piece."""
        return combined(self.pieces[piece].column(STORED_FIELDS[0]))

    def members(self, piece: int) -> Members:
        """Tuple fields of one piece."""
        table = self.pieces[piece]
        ids, sources, versions, splits = [combined(table.column(name)) for name in STORED_FIELDS]
        first, last = int(self.starts[piece]), int(self.starts[piece + 1])
        return Members(
            sample_ids=ids,
            source_ids=sources,
            source_versions=versions,
            splits=splits,
            digests=self.digests[first:last],
        )


def stage(batches: Iterable[Prepared], folder: Path, memory_bytes: int, expected: int = 0) -> Staged:
    """Keep all records; beyond ``memory_bytes`` they go to files below ``folder``.

    Args:
        batches: In the order of the source.
        folder: For what does not stay in memory.
        memory_bytes: Bytes of records that may stay there.
        expected: About how many records will come; room is made for them at once.

    Raises:
        InvalidInputError: As ``SplitCounter.add``.
    """
    pieces = Pieces(folder, memory_bytes)
    facts = _Facts(expected)
    splits = SplitCounter()
    for batch in batches:
        facts.add(batch)
        splits.add(batch.members.splits, batch.tokens)
        pieces.add(batch.to_table())
    pieces.flush()
    counts = [piece.num_rows for piece in pieces]
    return Staged(
        pieces=pieces,
        starts=np.concatenate(([0], np.cumsum(counts, dtype=np.int64))),
        leaves=facts.leaves[: facts.count],
        digests=facts.digests[: facts.count],
        lengths=facts.lengths[: facts.count],
        tokens=facts.tokens[: facts.count],
        splits=splits.totals,
    )


class _Facts:
    """Flat arrays that grow by half when they are full."""

    def __init__(self, expected: int) -> None:
        self.count = 0
        self.leaves = np.empty((expected, 32), np.uint8)
        self.digests = np.empty((expected, 32), np.uint8)
        self.lengths = np.empty(expected, np.int64)
        self.tokens = np.empty(expected, np.int64)

    def add(self, batch: Prepared) -> None:
        end = self.count + len(batch.leaves)
        if end > len(self.leaves):
            self._grow(end + end // 2)
        self.leaves[self.count : end] = batch.leaves
        self.digests[self.count : end] = batch.members.digests
        self.lengths[self.count : end] = batch.lengths
        self.tokens[self.count : end] = batch.tokens
        self.count = end

    def _grow(self, room: int) -> None:
        self.leaves = _roomy(self.leaves, room)
        self.digests = _roomy(self.digests, room)
        self.lengths = _roomy(self.lengths, room)
        self.tokens = _roomy(self.tokens, room)


def _roomy(array: npt.NDArray[T], room: int) -> npt.NDArray[T]:
    larger = np.empty((room, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def rows_by_piece(staged: Staged, records: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Growing record numbers, cut by the piece that holds them, each counted from the piece's start."""
    cuts = np.searchsorted(records, staged.starts)
    for piece in range(len(staged.pieces)):
        first, last = int(cuts[piece]), int(cuts[piece + 1])
        if last > first:
            yield piece, records[first:last] - staged.starts[piece]


def rows_of(facts: npt.NDArray[T], records: npt.NDArray[np.int64]) -> npt.NDArray[T]:
    """Rows of an array by record number; no copy where they follow each other."""
    span = as_span(records)
    # take() copies rows many times faster than indexing does.
    return facts.take(records, axis=0) if span is None else facts[span[0] : span[1]]


def as_span(rows: npt.NDArray[np.int64]) -> tuple[int, int] | None:
    """First and end of rows that follow each other, else None."""
    if not len(rows) or rows[-1] - rows[0] != len(rows) - 1 or not (np.diff(rows) == 1).all():
        return None
    return int(rows[0]), int(rows[-1]) + 1

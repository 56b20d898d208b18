"""Staged records: everything that was read, in pieces of bounded size, in memory or spilled.

A piece holds records in the order of the source; who they are (leaf, digest, length, tokens) is
kept for all of them in a few flat arrays. Source: schemas/SPEC.md#publish
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.encode import RESERVED, reserved_fields
from shardrel.canonical.sha import Bytes32
from shardrel.membership.columns import Digests, Members, combined, plain

PIECE_BYTES = 16 * 1024 * 1024


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
        """Reserved columns, then the payload: the columns of a shard."""
        strings = [plain(column) for column in self.members.strings]
        schema = pa.schema([*reserved_fields(), *self.payload.schema])
        return pa.table([*strings, *self.payload.columns], schema=schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """All records of a release before they are put into shards.

    Attributes:
        pieces: Tables of a shard's columns; record i lies in the piece that ``starts`` says.
        starts: Number of the first record of each piece, and the number of records at the end.
        leaves: Shape (n, 32); so is ``digests``. ``lengths`` and ``tokens`` have shape (n,).
    """

    pieces: tuple[Any, ...]
    starts: npt.NDArray[np.int64]
    leaves: Bytes32
    digests: Digests
    lengths: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.leaves)

    def members(self, piece: int) -> Members:
        """Tuple fields of one piece."""
        table = self.pieces[piece]
        ids, sources, versions, splits = [combined(table.column(name)) for name in RESERVED]
        first, last = int(self.starts[piece]), int(self.starts[piece + 1])
        return Members(
            sample_ids=ids,
            source_ids=sources,
            source_versions=versions,
            splits=splits,
            digests=self.digests[first:last],
        )


def stage(batches: Iterable[Prepared], folder: Path, memory_bytes: int) -> Staged:
    """Keep all records; beyond ``memory_bytes`` they go to files below ``folder``.

    Raises:
        ValueError: There was not one batch.
    """
    keep = _Keep(folder, memory_bytes)
    facts: list[Prepared] = []
    pending: list[Any] = []
    for batch in batches:
        facts.append(batch)
        pending.append(batch.to_table())
        if sum(table.nbytes for table in pending) >= PIECE_BYTES:
            keep.add(pending)
            pending = []
    if pending:
        keep.add(pending)
    counts = [piece.num_rows for piece in keep.pieces]
    return Staged(
        pieces=tuple(keep.pieces),
        starts=np.concatenate(([0], np.cumsum(counts, dtype=np.int64))),
        leaves=np.concatenate([batch.leaves for batch in facts]),
        digests=np.concatenate([batch.members.digests for batch in facts]),
        lengths=np.concatenate([batch.lengths for batch in facts]),
        tokens=np.concatenate([batch.tokens for batch in facts]),
    )


class _Keep:
    def __init__(self, folder: Path, memory_bytes: int) -> None:
        self.pieces: list[Any] = []
        self._folder = folder
        self._left = memory_bytes

    def add(self, tables: list[Any]) -> None:
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        table = table.combine_chunks()
        self._left -= table.nbytes
        self.pieces.append(table if self._left >= 0 else self._spilled(table))

    def _spilled(self, table: Any) -> Any:
        path = self._folder / f"piece-{len(self.pieces)}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def rows_by_piece(staged: Staged, records: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Growing record numbers, cut by the piece that holds them, each counted from the piece's start."""
    cuts = np.searchsorted(records, staged.starts)
    for piece in range(len(staged.pieces)):
        first, last = int(cuts[piece]), int(cuts[piece + 1])
        if last > first:
            yield piece, records[first:last] - staged.starts[piece]

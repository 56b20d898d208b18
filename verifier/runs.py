"""Member tuples of each shard, kept or put down on disk by range of sample ids, and gathered again by range.

The ranges are those of the snapshot's parts, so that what has to be compared with one part is read
together, however many shards there are. Source: schemas/SPEC.md#verification
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shardrel.canonical.sha import Bytes32
from verifier.arrays import first_above, joined_context
from verifier.leaves import plain
from verifier.pieces import check_bound
from verifier.run_files import Room, Stored, Strings, put_down
from verifier.seen import Seen

# Runs that stay in memory, all together; a few hundred thousand members need no disk.
_KEPT_BYTES = 64 * 1024 * 1024
# A dictionary is kept with a run while it is small; otherwise strings are written out.
_SMALL_DICTIONARY = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Members of one shard in order of sample id (ties in canonical order).

    Attributes:
        ids: String array.
        context: Source id, source version, split: string arrays or dictionaries of strings.
        rows: Where each stands in the shard.
    """

    ids: Any
    context: tuple[Any, Any, Any]
    content: Bytes32
    leaves: Bytes32
    rows: Any

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def id_bytes(self) -> int:
        """Bytes of all sample ids."""
        return Strings.of(self.ids).size

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        arrays = (self.ids, *self.context, self.content, self.leaves, self.rows)
        return sum(int(one.nbytes) for one in arrays)

    def between(self, start: int, stop: int) -> "Run":
        """The members at [start, stop); nothing is copied."""
        source, version, split = (column.slice(start, stop - start) for column in self.context)
        return Run(
            ids=self.ids.slice(start, stop - start),
            context=(source, version, split),
            content=self.content[start:stop],
            leaves=self.leaves[start:stop],
            rows=self.rows[start:stop],
        )

    def read(self, room: Room) -> tuple[Any, Any, Any]:
        """Copy the members; returns their context."""
        room.content[:], room.leaves[:], room.rows[:] = self.content, self.leaves, self.rows
        strings = Strings.of(self.ids)
        room.id_ends[:], room.ids[:] = strings.ends, strings.data
        return self.context


class Runs:
    """All runs of a release: the first ones in memory, then a file a shard in a folder that the caller owns.

    Args:
        borders: Last sample id of each range but the open one behind them.
        kept_bytes: What may stay in memory.
    """

    def __init__(self, folder: Path, borders: Sequence[str], kept_bytes: int = _KEPT_BYTES) -> None:
        self._folder = folder
        self._borders = list(borders)
        self._lock = threading.Lock()
        self._free = kept_bytes
        self._held: list[list[tuple[int, Run | Stored]]] = [[] for _ in range(len(self._borders) + 1)]

    @property
    def ranges(self) -> int:
        """Number of ranges; the last one is open and should hold nothing."""
        return len(self._held)

    def put(self, shard: int, run: Run) -> None:
        """Take a shard's members; safe among threads.

        Effects: one file in the folder, where they do not fit into memory any more.
        """
        if not len(run):
            return
        source, version, split = map(_light, run.context)
        run = Run(ids=run.ids, context=(source, version, split), content=run.content, leaves=run.leaves, rows=run.rows)
        cuts = [0, *[first_above(run.ids, border) for border in self._borders], len(run)]
        pieces = {n: run.between(start, stop) for n, (start, stop) in enumerate(pairwise(cuts)) if stop > start}
        held: Sequence[Run | Stored] = list(pieces.values())
        if not self._keeps(run.nbytes):
            held = put_down(self._folder / f"{shard}.run", list(pieces.values()))
        with self._lock:
            for number, piece in zip(pieces, held, strict=True):
                self._held[number].append((shard, piece))

    def drop(self, pool: Executor) -> None:
        """Begin to remove the files, which nobody reads any more: many at a time, since large ones take a while."""
        for path in self._folder.glob("*.run"):
            pool.submit(path.unlink)

    def _keeps(self, size: int) -> bool:
        with self._lock:
            if size > self._free:
                return False
            self._free -= size
        return True

    def get(self, number: int) -> Seen:
        """Members of one range, shard after shard.

        Raises:
            InvalidInputError: ``input.invalid``: their sample ids have more than 2 GiB.
        """
        pieces = sorted(self._held[number], key=lambda held: held[0])
        if not pieces:
            return _nothing()
        rows = np.cumsum([0, *(len(piece) for _, piece in pieces)])
        bytes_ = np.cumsum([0, *(piece.id_bytes for _, piece in pieces)])
        check_bound(int(bytes_[-1]))
        room = Room.for_members(int(rows[-1]), int(bytes_[-1]))
        borders = np.zeros(len(room) + 1, np.int32)
        found = []
        for (_, piece), (first, end), (low, high) in zip(pieces, pairwise(rows), pairwise(bytes_), strict=True):
            found.append(piece.read(room.between(first, end, low, high)))
            np.add(room.id_ends[first:end], low, out=borders[first + 1 : end + 1], casting="unsafe")
        source, version, split = (joined_context([context[i] for context in found]) for i in range(3))
        return Seen(
            ids=pa.StringArray.from_buffers(len(room), pa.py_buffer(borders), pa.py_buffer(room.ids)),
            context=(source, version, split),
            content=room.content,
            leaves=room.leaves,
            shards=np.repeat(np.array([shard for shard, _ in pieces], np.uint32), np.diff(rows)),
            rows=room.rows,
        )


def _nothing() -> Seen:
    none = pa.array([], pa.string())
    digests, numbers = np.empty((0, 32), np.uint8), np.empty(0, np.uint32)
    return Seen(ids=none, context=(none,) * 3, content=digests, leaves=digests, shards=numbers, rows=numbers)


def _light(values: Any) -> Any:
    if pa.types.is_dictionary(values.type) and len(values.dictionary) > _SMALL_DICTIONARY:
        return plain(values)
    return values

"""Member tuples of each shard, kept or put down on disk by range of sample ids, and gathered again by range.

The ranges are those of the snapshot's parts, so that what has to be compared with one part is read
together, however many shards there are. Source: schemas/SPEC.md#verification
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shardrel.canonical.sha import Bytes32
from verifier.arrays import first_above, joined_context
from verifier.leaves import plain
from verifier.pieces import check_bound
from verifier.run_files import Room, RunFile, Strings
from verifier.seen import Seen

# Runs that stay in memory, all together; a few hundred thousand members need no disk.
_KEPT_BYTES = 64 * 1024 * 1024
# A dictionary of a run that is in a file stays in memory while it is small, and all of them together are: equal ones are
# one. Otherwise its strings are written out.
_DICTIONARY_BYTES, _DICTIONARIES_BYTES = 64 * 1024, 16 * 1024 * 1024


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


class _Kept:
    """Members of one shard in memory, by range."""

    def __init__(self, pieces: Sequence[Run]) -> None:
        self._pieces = pieces

    def sizes(self, place: int) -> tuple[int, int]:
        """Members of one of the pieces, and bytes of their ids."""
        piece = self._pieces[place]
        return len(piece), Strings.of(piece.ids).size

    def read(self, place: int, room: Room) -> tuple[Any, Any, Any]:
        """Copy one of the pieces; returns the context of its members."""
        piece = self._pieces[place]
        room.content[:], room.leaves[:], room.rows[:] = piece.content, piece.leaves, piece.rows
        strings = Strings.of(piece.ids)
        room.id_ends[:], room.ids[:] = strings.ends, strings.data
        return piece.context


class Runs:
    """All runs of a release: the first ones in memory, then a file a shard in a folder that the caller owns.

    Of a run in a file, memory holds a few numbers a range, and dictionaries as far as they are small.

    Args:
        borders: Last sample id of each range but the open one behind them.
        kept_bytes: What may stay in memory.
    """

    def __init__(self, folder: Path, borders: Sequence[str], kept_bytes: int = _KEPT_BYTES) -> None:
        self._folder = folder
        self._borders = list(borders)
        self._lock = threading.Lock()
        self._free = kept_bytes
        self._runs: dict[int, _Kept | RunFile] = {}
        self._dictionaries: dict[tuple[str, ...], Any] = {}
        self._dictionaries_left = _DICTIONARIES_BYTES
        # Shard, and place among its ranges, in turn: there may be very many.
        self._held: list[list[int]] = [[] for _ in range(len(self._borders) + 1)]

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
        cuts = [0, *[first_above(run.ids, border) for border in self._borders], len(run)]
        ranges = {n: cut for n, cut in enumerate(pairwise(cuts)) if cut[1] > cut[0]}
        if self._keeps(run.nbytes):
            held: _Kept | RunFile = _Kept([run.between(*cut) for cut in ranges.values()])
        else:
            light = self._light(run)
            held = RunFile(self._folder / f"{shard}.run", [light.between(*cut) for cut in ranges.values()])
        with self._lock:
            self._runs[shard] = held
            for place, number in enumerate(ranges):
                self._held[number] += [shard, place]

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

    def _light(self, run: Run) -> Run:
        """The run with strings where dictionaries are too large to be kept."""
        source, version, split = map(self._small, run.context)
        return replace(run, context=(source, version, split))

    def _small(self, values: Any) -> Any:
        if not pa.types.is_dictionary(values.type):
            return values
        size = int(values.dictionary.nbytes)
        if size > _DICTIONARY_BYTES:
            return plain(values)
        entries = tuple(values.dictionary.to_pylist())
        with self._lock:
            if entries not in self._dictionaries:
                if size > self._dictionaries_left:
                    return plain(values)
                self._dictionaries_left -= size
                self._dictionaries[entries] = pa.array(entries, values.type.value_type)
            return pa.DictionaryArray.from_arrays(values.indices, self._dictionaries[entries])

    def get(self, number: int) -> Seen:
        """Members of one range, shard after shard.

        Raises:
            InvalidInputError: ``input.invalid``: their sample ids have more than 2 GiB.
        """
        flat = self._held[number]
        places = sorted(zip(flat[::2], flat[1::2], strict=True))
        if not places:
            return _nothing()
        sizes = [self._runs[shard].sizes(place) for shard, place in places]
        rows, bytes_ = (np.cumsum([0, *(size[i] for size in sizes)]) for i in (0, 1))
        check_bound(int(bytes_[-1]))
        room = Room.for_members(int(rows[-1]), int(bytes_[-1]))
        borders = np.zeros(len(room) + 1, np.int32)
        found = []
        for (shard, place), (first, end), (low, high) in zip(places, pairwise(rows), pairwise(bytes_), strict=True):
            found.append(self._runs[shard].read(place, room.between(first, end, low, high)))
            np.add(room.id_ends[first:end], low, out=borders[first + 1 : end + 1], casting="unsafe")
        source, version, split = (joined_context([context[i] for context in found]) for i in range(3))
        return Seen(
            ids=pa.StringArray.from_buffers(len(room), pa.py_buffer(borders), pa.py_buffer(room.ids)),
            context=(source, version, split),
            content=room.content,
            leaves=room.leaves,
            shards=np.repeat(np.array([shard for shard, _ in places], np.uint32), np.diff(rows)),
            rows=room.rows,
        )


def _nothing() -> Seen:
    none = pa.array([], pa.string())
    digests, numbers = np.empty((0, 32), np.uint8), np.empty(0, np.uint32)
    return Seen(ids=none, context=(none,) * 3, content=digests, leaves=digests, shards=numbers, rows=numbers)

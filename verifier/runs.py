"""Member tuples of each shard, kept or put down on disk by range of sample ids, and gathered again by range.

The ranges are those of the snapshot's parts, so that what has to be compared with one part is read
together, however many shards there are. Source: schemas/SPEC.md#verification
"""

import threading
from bisect import bisect_left
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.canonical.sha import Bytes32
from verifier.leaves import codes, plain

# Runs that stay in memory, all together; a few hundred thousand members need no disk.
_KEPT_BYTES = 64 * 1024 * 1024
# A dictionary is kept with a run while it is small; otherwise strings are written out.
_SMALL_DICTIONARY = 4096
_INDEX = pa.int16()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Members of one shard in order of sample id (ties in canonical order).

    Attributes:
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
        self._kept: dict[int, list[pa.RecordBatch]] = {}
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
        batch = _batch(run)
        pieces = {n: batch.slice(start, stop - start) for n, (start, stop) in enumerate(pairwise(cuts)) if stop > start}
        if not self._keep(shard, batch.nbytes, list(pieces.values())):
            with pa.OSFile(str(self._path(shard)), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
                for piece in pieces.values():
                    writer.write_batch(piece)
        with self._lock:
            for place, number in enumerate(pieces):
                self._held[number] += [shard, place]

    def drop(self, pool: Executor) -> None:
        """Begin to remove the files, which nobody reads any more: many at a time, since large ones take a while."""
        for path in self._folder.glob("*.arrow"):
            pool.submit(path.unlink)

    def _keep(self, shard: int, size: int, pieces: list[pa.RecordBatch]) -> bool:
        with self._lock:
            if size > self._free:
                return False
            self._free -= size
            self._kept[shard] = pieces
        return True

    def get(self, number: int) -> list[tuple[int, Run]]:
        """Members of one range: (shard, run) in order of shards."""
        flat = self._held[number]
        places = sorted(zip(flat[::2], flat[1::2], strict=True))
        return [(shard, self._read(shard, place)) for shard, place in places]

    def _read(self, shard: int, place: int) -> Run:
        if shard in self._kept:
            batch = self._kept[shard][place]
        else:
            # Mapped for as long as it is read: what stays mapped counts as memory of this process.
            with pa.memory_map(str(self._path(shard))) as source:
                batch = pa.ipc.open_file(source).get_batch(place)
        content, leaves = (digest_matrix(batch.column(name)) for name in ("content", "leaf"))
        context = (batch.column("source"), batch.column("version"), batch.column("split"))
        rows = batch.column("row").to_numpy()
        return Run(ids=batch.column("id"), context=context, content=content, leaves=leaves, rows=rows)

    def _path(self, shard: int) -> Path:
        return self._folder / f"{shard}.arrow"


def first_above(ids: Any, border: str) -> int:
    """First position whose id is above the border, in UTF-8 byte order, which is that of code points."""
    return bisect_left(range(len(ids)), True, key=lambda at: ids[at].as_py() > border)


def _batch(run: Run) -> pa.RecordBatch:
    columns = {
        "id": run.ids,
        "source": _light(run.context[0]),
        "version": _light(run.context[1]),
        "split": _light(run.context[2]),
        "content": digest_array(run.content),
        "leaf": digest_array(run.leaves),
        "row": pa.array(run.rows, pa.uint32()),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _light(values: Any) -> Any:
    if not pa.types.is_dictionary(values.type):
        return values
    if len(values.dictionary) > _SMALL_DICTIONARY:
        return plain(values)
    return values.cast(pa.dictionary(_INDEX, values.type.value_type))


def digest_array(rows: Bytes32) -> Any:
    """A fixed-size binary array over an (n, 32) matrix; no copy where it is contiguous."""
    data = pa.py_buffer(np.ascontiguousarray(rows).reshape(-1))
    return pa.Array.from_buffers(pa.binary(32), len(rows), [None, data])


def digest_matrix(values: Any) -> Bytes32:
    """The values of a 32-byte binary array as an (n, 32) matrix; no copy."""
    data = values.buffers()[1]
    if data is None:
        return np.empty((0, 32), np.uint8)
    return np.frombuffer(data, np.uint8, len(values) * 32, values.offset * 32).reshape(-1, 32)


def joined_context(parts: Sequence[Any]) -> Any:
    """One array of several runs' strings: a dictionary where each of them is one, plain otherwise."""
    if len(parts) == 1:
        return parts[0]
    if not all(pa.types.is_dictionary(part.type) for part in parts):
        return pa.concat_arrays([plain(part) for part in parts])
    entries = pa.concat_arrays([part.dictionary for part in parts]).unique()
    if len(entries) == 1 and not any(part.null_count for part in parts):
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(sum(map(len, parts)), np.int32)), entries)
    spots = [pc.index_in(part.dictionary, value_set=entries).to_numpy()[codes(part)] for part in parts]
    return pa.DictionaryArray.from_arrays(pa.array(np.concatenate(spots).astype(np.int32)), entries)

"""Sort more tuples than fit into memory: sorted runs, merged range by range.

A run is a table sorted by sample id, in memory or in a file of a temporary folder that is mapped.
The ranges cut all runs at the same sample ids, so that each can be sorted on its own.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

RUN_BYTES = 64 * 1024 * 1024
RANGE_ROWS = 131_072
KEY = "sample_id"


class SortedRuns:
    """Takes tables in any order and gives them back in the order of their sample ids.

    Args:
        folder: Where runs go that memory has no room for; the caller removes it.
        memory_bytes: Bytes of runs that stay in memory.
        run_bytes: Bytes of a run.
    """

    def __init__(self, folder: Path, memory_bytes: int, run_bytes: int = RUN_BYTES) -> None:
        self._folder = folder
        self._room = memory_bytes
        self._run_bytes = run_bytes
        self._pending: list[Any] = []
        self._pending_bytes = 0
        self._runs: list[Any] = []

    def append(self, table: Any) -> None:
        """Take some rows.

        Effects: writes a file in the folder when a run is full and memory has no room for it.
        """
        self._pending.append(table)
        self._pending_bytes += table.nbytes
        if self._pending_bytes >= self._run_bytes:
            self._close_run()

    def ranges(self, range_rows: int = RANGE_ROWS) -> Iterator[Any]:
        """All rows in order, as sorted tables of about ``range_rows`` whose borders no two equal ids straddle."""
        self._close_run()
        starts = [0] * len(self._runs)
        keys = [_Keys(run.column(KEY).chunk(0)) for run in self._runs]
        for border in [*_borders(keys, range_rows), None]:
            stops = [len(key) if border is None else bisect_right(key, border) for key in keys]
            pieces = [
                run.slice(start, stop - start)
                for run, start, stop in zip(self._runs, starts, stops, strict=True)
                if stop > start
            ]
            starts = stops
            if pieces:
                yield sort_table(pa.concat_tables(pieces))

    def _close_run(self) -> None:
        if not self._pending_bytes:
            self._pending.clear()
            return
        run = sort_table(pa.concat_tables(self._pending))
        self._pending, self._pending_bytes = [], 0
        if run.nbytes <= self._room:
            self._room -= run.nbytes
        else:
            run = _spilled(run, self._folder / f"run-{len(self._runs):06d}.arrow")
        self._runs.append(run)


def sort_table(table: Any) -> Any:
    """A table with one chunk a column, sorted by the bytes of its sample ids."""
    table = table.combine_chunks()
    return table.take(pc.sort_indices(table.column(KEY))).combine_chunks()


def first_twin(table: Any) -> int | None:
    """Position of the first row of a sorted table whose sample id the next row has, too."""
    ids = table.column(KEY).chunk(0) if table.num_rows else pa.array([], pa.string())
    if len(ids) < 2:
        return None
    at = pc.index(pc.equal(ids.slice(1), ids.slice(0, len(ids) - 1)), pa.scalar(True)).as_py()
    return None if at < 0 else int(at)


def _spilled(run: Any, path: Path) -> Any:
    batch = run.to_batches()[0]
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, run.schema) as writer:
        writer.write_batch(batch)
    with pa.memory_map(str(path), "r") as source:
        return pa.ipc.open_file(source).read_all()


def _borders(keys: "Sequence[_Keys]", range_rows: int) -> list[bytes]:
    """Sample ids that cut all runs together into ranges of about ``range_rows``."""
    total = sum(len(key) for key in keys)
    if total <= range_rows:
        return []
    step = max(range_rows // (2 * len(keys)), 1)
    samples = sorted(key[at] for key in keys for at in range(step - 1, len(key), step))
    every = max(range_rows // step, 1)
    return sorted(set(samples[every - 1 :: every]))


class _Keys(Sequence[bytes]):
    """The sample ids of a run as a sequence that bisection can look into."""

    def __init__(self, column: Any) -> None:
        self._offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
        self._data = memoryview(column.buffers()[2] or b"")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, at: Any) -> Any:
        if not 0 <= at < len(self):
            raise IndexError(at)
        return bytes(self._data[self._offsets[at] : self._offsets[at + 1]])

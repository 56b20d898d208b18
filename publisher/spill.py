"""Sort more tuples than fit into memory: sorted runs, merged range by range.

A run is a table sorted by sample id, in memory or in a file of a temporary folder. The ranges cut
all runs at the same sample ids, so that each can be sorted on its own. Files are read and not
mapped: mapped pages would count as memory of this process.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.membership.order import grows

RUN_BYTES = 16 * 1024 * 1024
RANGE_ROWS = 65_536
BLOCK_ROWS = 2048
KEY = "sample_id"
_FOLDED_VALUES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A sorted run: blocks of rows, and the sample id that each block ends with."""

    table: Any | None
    path: Path | None
    last_ids: tuple[bytes, ...]

    def blocks(self) -> Iterator[Any]:
        """The rows in order, as tables."""
        if self.path is None:
            assert self.table is not None
            yield self.table
            return
        with pa.OSFile(str(self.path), "rb") as file, pa.ipc.open_stream(file) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])


class SortedRuns:
    """Takes tables in any order and gives them back in the order of their sample ids.

    Args:
        folder: Where runs go that memory has no room for; the caller removes it.
        memory_bytes: Bytes of runs that stay in memory.
        run_bytes: Bytes of a run.
        block_rows: Rows of a run that are read at a time.
    """

    def __init__(
        self, folder: Path, memory_bytes: int, run_bytes: int = RUN_BYTES, block_rows: int = BLOCK_ROWS
    ) -> None:
        self._folder = folder
        self._room = memory_bytes
        self._run_bytes = run_bytes
        self._block_rows = block_rows
        self._pending: list[Any] = []
        self._pending_bytes = 0
        self._runs: list[_Run] = []

    def append(self, table: Any) -> None:
        """Take some rows.

        Effects: writes a file in the folder when a run is full and memory has no room for it.
        """
        self._pending.append(table)
        self._pending_bytes += table.nbytes
        if self._pending_bytes >= self._run_bytes:
            self._close_run()

    def ranges(self, range_rows: int = RANGE_ROWS) -> Iterator[Any]:
        """All rows in order, as sorted tables of about ``range_rows``; equal ids are in one table."""
        self._close_run()
        cursors = [_Cursor(run) for run in self._runs]
        for border in [*_borders(self._runs, max(range_rows // self._block_rows, 1)), None]:
            pieces = [piece for cursor in cursors for piece in cursor.take_until(border)]
            if pieces:
                yield sort_table(pa.concat_tables([_unfolded(piece, 0) for piece in pieces]))

    def _close_run(self) -> None:
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if not sum(table.num_rows for table in pending):
            return
        run = _unfolded(sort_table(pa.concat_tables(pending)), _FOLDED_VALUES)
        path = None if run.nbytes <= self._room else self._folder / f"run-{len(self._runs):06d}.arrows"
        ends = [*range(self._block_rows - 1, run.num_rows - 1, self._block_rows), run.num_rows - 1]
        keys = _Keys(run.column(KEY).chunk(0))
        self._runs.append(_Run(table=None if path else run, path=path, last_ids=tuple(keys[end] for end in ends)))
        if path is None:
            self._room -= run.nbytes
        else:
            _write(run, path, self._block_rows)


class _Cursor:
    """Reads one run forward, up to one border after the other."""

    def __init__(self, run: _Run) -> None:
        self._blocks = run.blocks()
        self._rest: Any | None = None

    def take_until(self, border: bytes | None) -> Iterator[Any]:
        """The rows that were not taken before and whose ids are not above the border; all without one."""
        while (block := self._rest if self._rest is not None else next(self._blocks, None)) is not None:
            keys = _Keys(block.column(KEY).chunk(0))
            stop = len(keys) if border is None else bisect_right(keys, border)
            self._rest = block.slice(stop) if stop < len(keys) else None
            if stop:
                yield block.slice(0, stop)
            if self._rest is not None:
                return


def sort_table(table: Any) -> Any:
    """A table with one chunk a column, sorted by the bytes of its sample ids."""
    table = table.combine_chunks()
    if not table.num_rows or grows(table.column(KEY).chunk(0)):
        return table
    return table.take(pc.sort_indices(table.column(KEY))).combine_chunks()


def _unfolded(table: Any, values: int) -> Any:
    """The table with plain strings in place of dictionaries of more than so many values.

    A small dictionary keeps a run small; each range takes from every run, so that large ones would be
    held many times.
    """
    for number, name in enumerate(table.column_names):
        column = table.column(number)
        if pa.types.is_dictionary(column.type) and any(len(chunk.dictionary) > values for chunk in column.chunks):
            table = table.set_column(number, name, column.cast(pa.string()))
    return table


def first_twin(table: Any) -> int | None:
    """Position of the first row of a sorted table whose sample id the next row has, too."""
    ids = table.column(KEY).chunk(0) if table.num_rows else pa.array([], pa.string())
    if len(ids) < 2:
        return None
    at = pc.index(pc.equal(ids.slice(1), ids.slice(0, len(ids) - 1)), pa.scalar(True)).as_py()
    return None if at < 0 else int(at)


def _write(run: Any, path: Path, block_rows: int) -> None:
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, run.schema, options=options) as writer:
        writer.write_table(run, max_chunksize=block_rows)


def _borders(runs: Sequence[_Run], every: int) -> list[bytes]:
    """Sample ids that cut all runs together into ranges of about ``every`` blocks."""
    last_ids = sorted(last for run in runs for last in run.last_ids)
    return sorted(set(last_ids[every - 1 :: every]))


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

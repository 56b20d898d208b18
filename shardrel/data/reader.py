"""Rows of the shards of a run, opened ahead of their use. Source: schemas/SPEC.md#runs, #host-cache"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardrel.data.columns import Column, Taken, gather, stored_column
from shardrel.data.decoded import DecodedCache, DecodedShard, ShardEntry
from shardrel.data.forms import form_of, stored_type
from shardrel.data.order import Samples
from shardrel.records.schema import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Samples in the asked order, a column each."""

    columns: dict[str, Column]
    count: int

    def slice(self, low: int, high: int) -> "Rows":
        """Some of the samples, on the same memory."""
        return Rows(columns={name: one.slice(low, high) for name, one in self.columns.items()}, count=high - low)

    def table(self) -> Any:
        """As an Arrow table of the logical types."""
        return pa.table([one.arrow() for one in self.columns.values()], list(self.columns))


class ShardReader:
    """Opened shards of a run; the last few stay open, the next few are opened in the background.

    A shard is checked each time it is opened, so none is used unverified.

    Attributes:
        entries: All shards of all inputs, by number.
    """

    def __init__(
        self,
        cache: DecodedCache,
        entries: Sequence[ShardEntry],
        fields: tuple[Field, ...],
        split: str | None,
        *,
        keep: int,
        threads: int = 2,
    ) -> None:
        self.entries = entries
        self._cache = cache
        self._fields = fields
        self._split = split
        self._keep = keep
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._open: OrderedDict[int, Future[DecodedShard]] = OrderedDict()

    def ahead(self, numbers: Iterable[int]) -> None:
        """Begin to open shards; what goes wrong is raised when one of their rows is taken."""
        for number in numbers:
            self._begin(number)

    def take(self, samples: Samples) -> Rows:
        """The samples in the given order; shape (n, 2) of shard and index.

        Raises:
            ShardrelError: As ``DecodedCache.open``.
        """
        grouped = list(_groups(samples[:, 0]))
        for number, _ in grouped:
            self._begin(number)
        opened = [(self._shard(number), at) for number, at in grouped]
        rows = samples[:, 1].astype(np.int64)
        return Rows(
            columns={
                field.name: gather(
                    [Taken(column=shard.columns[place], rows=rows[at], at=at) for shard, at in opened], len(rows)
                )
                if opened
                else _empty(field)
                for place, field in enumerate(self._fields)
            },
            count=len(rows),
        )

    def close(self) -> None:
        """Let go of all shards and end the threads."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        self._open.clear()

    def _begin(self, number: int) -> None:
        if number not in self._open:
            # The threads belong to the process that reads: a pool made before a fork would be dead behind it.
            self._pool = self._pool or ThreadPoolExecutor(self._threads, thread_name_prefix="shardrel-open")
            self._open[number] = self._pool.submit(self._cache.open, self.entries[number], self._fields, self._split)
        self._open.move_to_end(number)

    def _shard(self, number: int) -> DecodedShard:
        self._begin(number)
        try:
            shard = self._open[number].result()
        except BaseException:
            del self._open[number]  # the next try opens it anew
            raise
        while len(self._open) > self._keep:
            self._open.popitem(last=False)[1].cancel()
        return shard


def _groups(numbers: npt.NDArray[np.uint32]) -> Iterable[tuple[int, npt.NDArray[np.int64]]]:
    """Places of each shard's samples."""
    if len(numbers) == 0:
        return
    order = np.argsort(numbers, kind="stable")
    shards, starts = np.unique(numbers[order], return_index=True)
    yield from zip((int(shard) for shard in shards), np.split(order, starts[1:]), strict=True)


def _empty(field: Field) -> Column:
    form = form_of(field)
    column = stored_column(pa.array([], stored_type(form)), form)
    none = np.zeros(0, np.int64)
    return gather([Taken(column=column, rows=none, at=none)], 0)

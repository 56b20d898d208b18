"""Rows of the shards of a run, opened ahead of their use. Source: schemas/SPEC.md#runs, #host-cache"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from shardrel.data.decoded import DecodedCache, DecodedShard, ShardEntry
from shardrel.data.order import Samples
from shardrel.data.rows import GatheredRows
from shardrel.records.schema import Field


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

    def take(self, samples: Samples) -> GatheredRows:
        """The samples in the given order; shape (n, 2) of shard and index.

        Raises:
            ShardrelError: As ``DecodedCache.open``.
        """
        numbers, slots = np.unique(samples[:, 0], return_inverse=True)
        self.ahead(numbers.tolist())
        shards = [self._shard(number) for number in numbers.tolist()]
        return GatheredRows(self._fields, shards, slots.reshape(-1), samples[:, 1].astype(np.int64))

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

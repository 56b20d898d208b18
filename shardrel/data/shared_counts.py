"""Counts of the worker processes of a loader, in memory that their rank reads. Source: schemas/SPEC.md#watching."""

import torch

from shardrel.data.counts import COUNTED, Counted, Counts

_PROCESSES = 64


class SharedCounts:
    """A row of numbers for each process that makes batches; it travels to them as torch's shared memory does.

    More than 64 workers share rows, and may then miss a count of each other.
    """

    def __init__(self) -> None:
        self._rows = torch.zeros((_PROCESSES, len(COUNTED)), dtype=torch.int64)
        self._rows.share_memory_()  # type: ignore[no-untyped-call]

    def of(self, worker: int) -> Counts:
        """Where a worker counts."""
        return Counts(self._rows[worker % _PROCESSES].numpy())

    def get(self, name: Counted) -> int:
        """What all of them have counted so far."""
        return int(self._rows[:, COUNTED.index(name)].sum())

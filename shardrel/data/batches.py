"""Batches of a pinned run: the rank's part of each step. Source: schemas/SPEC.md#sample-order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from shardrel.data import ledger
from shardrel.data.columns import Column
from shardrel.data.mix import RunOrder, counts_at, samples_from, shards_ahead
from shardrel.data.order import Samples, rank_part
from shardrel.data.reader import ShardReader
from shardrel.data.rows import HeldRows, Rows, table_of
from shardrel.data.tensors import Ragged, ragged_of, tensor_of
from shardrel.records.checkpoint import Cut

STRETCH_ROWS = 2048
"""Rows that a rank takes at once, at most: enough to hide what a call costs. Wide ones are copied batch by batch."""

_STRETCH_SAMPLES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBatch:
    """One step, as one rank sees it.

    Attributes:
        before: The cut that the step starts from.
        after: The cut once the step is done: what a checkpoint behind this step holds.
        samples: Shape (m, 2), the whole global batch in global order, equal on every rank.
        part: Half-open range of ``samples`` that is this rank's; may be empty.
        taken: What was gathered together with the part; ``first`` is where the part begins in it.
    """

    before: Cut
    after: Cut
    samples: Samples
    part: tuple[int, int]
    taken: Rows
    first: int

    @property
    def step(self) -> int:
        """Number of the step, from 0."""
        return self.before.step

    @property
    def count(self) -> int:
        """Samples of the global batch."""
        return len(self.samples)

    @property
    def share(self) -> float:
        """This rank's share of the batch. Mean losses weighted by it sum over the ranks to the global mean."""
        return self.size / self.count

    @property
    def size(self) -> int:
        """Samples of the part."""
        return self.part[1] - self.part[0]

    @property
    def table(self) -> Any:
        """Arrow table of the part's wanted columns, by their logical types."""
        return table_of(self.taken, self.first, self.first + self.size)

    def tensor(self, name: str) -> torch.Tensor:
        """A column of numbers, fixed-size lists or fixed binaries: shape (rows, …), not copied.

        Raises:
            InvalidInputError: ``input.column-type``.
        """
        return tensor_of(self._column(name), name)

    def ragged(self, name: str) -> Ragged:
        """A column of lists of numbers, strings or binaries, not copied.

        Raises:
            InvalidInputError: ``input.column-type``.
        """
        return ragged_of(self._column(name), name)

    def views(self, name: str) -> list[torch.Tensor]:
        """A tensor a row on the mapped shards themselves: nothing is copied, and nothing may be written to them.

        The mapping is private: a write would change neither file nor other processes, and this process's later batches.
        What lies under a null row is not defined.

        Raises:
            InvalidInputError: ``input.column-type``.
        """
        return self.taken.views(name, self.first, self.first + self.size, torch.from_numpy)

    def _column(self, name: str) -> Column:
        return self.taken.column(name, self.first, self.first + self.size)

    def __reduce__(self) -> tuple[Any, ...]:
        """Between processes numbers travel as tensors, which torch puts into shared memory."""
        columns = {name: _packed(self._column(name)) for name in self.taken.names}
        return _received, (self.before, self.after, self.samples, self.part, columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Whose batches: of which rank, and of which of its loader's workers.

    Attributes:
        worker: Worker number k of n makes steps k, k + n, k + 2n … from the first one on.
    """

    rank: int
    world_size: int
    worker: int = 0
    workers: int = 1


def batches(
    reader: ShardReader,
    order: RunOrder,
    cut: Cut,
    *,
    global_batch: int,
    seat: Seat,
    first: int | None = None,
) -> Iterator[StepBatch]:
    """Steps from a cut on, without end; a resume is the same call with the restored cut.

    Several steps are gathered at once, and shards that come next are opened meanwhile.

    Args:
        reader: Of the run's shards.
        order: Of the run's samples.
        cut: What was consumed before.
        global_batch: Samples a step, over all ranks.
        seat: Whose part is wanted.
        first: Step from which the steps are dealt out to the workers; None for that of the cut.

    Ranks: all, each with its own rank; every rank gets every step, so that collectives stay matched.
    """
    steps = _stretch_steps(global_batch, seat)
    first = cut.step if first is None else first
    while True:
        counts = counts_at(order, cut.cursor, global_batch, steps)
        samples = samples_from(order, cut.cursor, sum(counts))
        plan = _plan(order, cut, samples, counts)
        mine = [one for one in plan if (one.before.step - first) % seat.workers == seat.worker]
        parts = [rank_part(len(one.samples), seat.rank, seat.world_size) for one in mine]
        wanted = np.concatenate([one.samples[low:high] for one, (low, high) in zip(mine, parts, strict=True)])
        reader.ahead(int(shard) for shard in np.unique(wanted[:, 0]))
        reader.ahead(shards_ahead(order, plan[-1].after.cursor))
        taken = reader.take(wanted)
        at = 0
        for one, part in zip(mine, parts, strict=True):
            yield StepBatch(before=one.before, after=one.after, samples=one.samples, part=part, taken=taken, first=at)
            at += part[1] - part[0]
        cut = plan[-1].after


class _Step(NamedTuple):
    before: Cut
    after: Cut
    samples: Samples


def _plan(order: RunOrder, cut: Cut, samples: Samples, counts: Sequence[int]) -> list[_Step]:
    plan, at = [], 0
    for count in counts:
        part = samples[at : at + count]
        plan.append(_Step(cut, ledger.after(cut, part, order), part))
        cut, at = plan[-1].after, at + count
    return plan


def _stretch_steps(global_batch: int, seat: Seat) -> int:
    own = max(1, STRETCH_ROWS * seat.world_size // global_batch)
    return max(seat.workers, min(own * seat.workers, _STRETCH_SAMPLES // global_batch))


def _packed(column: Column) -> tuple[Column, Any, Any]:
    values = None if column.values is None else torch.from_numpy(np.ascontiguousarray(column.values))
    ends = None if column.ends is None else torch.from_numpy(np.ascontiguousarray(column.ends))
    array = None if column.array is None else column.array.take(np.arange(column.rows))
    return replace(column, values=None, ends=None, array=array), values, ends


def _received(before: Cut, after: Cut, samples: Samples, part: tuple[int, int], columns: dict[str, Any]) -> StepBatch:
    rows = {
        name: replace(
            column,
            values=None if values is None else values.numpy(),
            ends=None if ends is None else ends.numpy(),
        )
        for name, (column, values, ends) in columns.items()
    }
    return StepBatch(before=before, after=after, samples=samples, part=part, taken=HeldRows(rows), first=0)

"""Several samples in one row of fixed length, the same on every topology. Source: schemas/SPEC.md#packing.

What a step consumes follows from the lengths of the samples in global order, so the cursor stays the number of samples
and a resume goes on exactly; rows are dealt out to the ranks after they were packed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from shardrel.data import ledger
from shardrel.data.batches import Seat
from shardrel.data.mix import RunOrder, counts_at, samples_from, shards_ahead
from shardrel.data.order import Samples, rank_part
from shardrel.data.reader import ShardReader
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.checkpoint import Cut

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackPlan:
    """What decides how samples are packed, the same on every rank.

    Attributes:
        column: Lists of numbers without nulls.
        rows: Of the global batch.
        length: Elements of a row; what a longer sample has beyond it is left out.
        pad: In the places that no sample takes.
    """

    column: str
    rows: int
    length: int
    pad: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Where the first samples of a sequence go: row, first place and length of each."""

    row: Ints
    start: Ints
    length: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedBatch:
    """One step, as one rank sees it.

    Attributes:
        before: The cut that the step starts from.
        after: The cut once the step is done.
        samples: Shape (m, 2): what the step consumes, in global order, equal on every rank.
        size: How many of them are in this rank's rows.
        values: Shape (rows of this rank, length).
        segments: The same shape, int32: 0 where nothing is, else the number of the sample in its row, from 1.
        positions: The same shape, int32: place inside of the sample.
        elements: Elements of this rank's rows, and of all rows.
    """

    before: Cut
    after: Cut
    samples: Samples
    size: int
    values: torch.Tensor
    segments: torch.Tensor
    positions: torch.Tensor
    elements: tuple[int, int]

    @property
    def share(self) -> float:
        """Weight of this rank's mean loss over its elements, so that the ranks sum to the mean over all."""
        return self.elements[0] / max(self.elements[1], 1)


def pack(lengths: Ints, rows: int, length: int) -> Packing:
    """Put samples in their order into the first row that has room, until one fits nowhere.

    Args:
        lengths: Of the next samples in global order.
        rows: How many there are.
        length: Room of each.
    """
    room = _Room(rows, length)
    row, start = [], []
    kept = np.minimum(lengths, length)
    for size in kept.tolist():
        if room.most < size:
            break
        place, left = room.take(size)
        row.append(place)
        start.append(length - left)
    return Packing(row=np.array(row, np.int64), start=np.array(start, np.int64), length=kept[: len(row)])


class _Room:
    """Elements that each row still takes, as a tree of the most in each half, so that a search takes log2(rows) steps."""

    def __init__(self, rows: int, length: int) -> None:
        self._leaves = 1 << (rows - 1).bit_length()
        tree = [-1] * self._leaves + [length] * rows + [-1] * (self._leaves - rows)
        for node in range(self._leaves - 1, 0, -1):
            tree[node] = max(tree[2 * node], tree[2 * node + 1])
        self._tree = tree

    @property
    def most(self) -> int:
        """What the emptiest row takes."""
        return self._tree[1]

    def take(self, size: int) -> tuple[int, int]:
        """Take from the first row that has room: its number, and what it took before."""
        tree, node = self._tree, 1
        while node < self._leaves:
            node *= 2
            if tree[node] < size:
                node += 1
        place, left = node - self._leaves, tree[node]
        tree[node] = left - size
        while node > 1:
            node //= 2
            tree[node] = max(tree[2 * node], tree[2 * node + 1])
        return place, left


def packed_batches(
    reader: ShardReader, order: RunOrder, cut: Cut, *, plan: PackPlan, seat: Seat, first: int | None = None
) -> Iterator[PackedBatch]:
    """Steps from a cut on, without end; each consumes as many samples as fit into its rows.

    Every worker of a seat packs every step, by the lengths alone, and gathers its own steps.

    Args:
        reader: Of the run's shards.
        order: Of the run's samples.
        cut: What was consumed before.
        plan: The same on every rank and at every resume.
        seat: Whose rows are wanted.
        first: Step from which the steps are dealt out to the workers; None for that of the cut.

    Ranks: all, each with its own rank; every rank gets every step.
    """
    if plan.rows < 1 or plan.length < 1:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "packing needs at least one row of at least one element")
    window = plan.rows * 8
    begin = cut.step if first is None else first
    while True:
        reader.ahead(shards_ahead(order, cut.cursor))
        samples, packing, window = _next_step(reader, order, cut, plan, window)
        done = ledger.after(cut, samples, order)
        if (cut.step - begin) % seat.workers == seat.worker:
            yield _batch(reader, cut, done, samples, packing, plan, seat)
        cut = done


def _next_step(
    reader: ShardReader, order: RunOrder, cut: Cut, plan: PackPlan, window: int
) -> tuple[Samples, Packing, int]:
    """The samples of a step, how they are packed, and how far to look ahead for the next one."""
    while True:
        (count,) = counts_at(order, cut.cursor, window, 1)
        samples = samples_from(order, cut.cursor, count)
        packing = pack(reader.take(samples).lengths(plan.column), plan.rows, plan.length)
        used = len(packing.row)
        if used < count or count < window:
            return samples[:used], packing, max(plan.rows, used + used // 4 + 8)
        window *= 2


def _batch(
    reader: ShardReader, before: Cut, after: Cut, samples: Samples, packing: Packing, plan: PackPlan, seat: Seat
) -> PackedBatch:
    low, high = rank_part(plan.rows, seat.rank, seat.world_size)
    mine = np.flatnonzero((packing.row >= low) & (packing.row < high))
    # Behind its own one more, which tells the elements' type where no sample is in this rank's rows.
    *views, one = reader.take(samples[[*mine, 0]]).views(plan.column, 0, len(mine) + 1, np.asarray)
    shape = (high - low, plan.length)
    values = np.full(shape, plan.pad, one.dtype)
    segments, positions = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    numbers, ramp = [0] * plan.rows, np.arange(plan.length, dtype=np.int32)
    places = (array[mine].tolist() for array in (packing.row, packing.start, packing.length))
    for row, start, size, view in zip(*places, views, strict=True):
        place = (row - low, slice(start, start + size))
        numbers[row] += 1
        values[place], segments[place], positions[place] = view[:size], numbers[row], ramp[:size]
    return PackedBatch(
        before=before,
        after=after,
        samples=samples,
        size=len(mine),
        values=torch.from_numpy(values),
        segments=torch.from_numpy(segments),
        positions=torch.from_numpy(positions),
        elements=(int(packing.length[mine].sum()), int(packing.length.sum())),
    )

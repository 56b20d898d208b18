"""Batches of a pinned run: the rank's part of each step. Source: schemas/SPEC.md#sample-order."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from shardrel.data import ledger
from shardrel.data.order import SampleOrder, Samples, batch_at, rank_part, samples_of
from shardrel.data.shards import ShardReader
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.checkpoint import Cut


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBatch:
    """One step, as one rank sees it.

    Attributes:
        before: The cut that the step starts from.
        after: The cut once the step is done: what a checkpoint behind this step holds.
        samples: Shape (m, 2), the whole global batch in global order, equal on every rank.
        part: Half-open range of ``samples`` that is this rank's; may be empty.
        table: Arrow table of the part's wanted columns.
    """

    before: Cut
    after: Cut
    samples: Samples
    part: tuple[int, int]
    table: Any

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
        return (self.part[1] - self.part[0]) / self.count


def batches(
    reader: ShardReader, order: SampleOrder, cut: Cut, *, global_batch: int, rank: int, world_size: int
) -> Iterator[StepBatch]:
    """Steps from a cut on, without end; a resume is the same call with the restored cut.

    Ranks: all, each with its own rank; every rank gets every step, so that collectives stay matched.
    """
    while True:
        span = batch_at(order, cut.cursor, global_batch)
        samples = samples_of(order, span)
        low, high = rank_part(span.count, rank, world_size)
        done = ledger.after(cut, span, samples, order)
        table = reader.take(samples[low:high])
        yield StepBatch(before=cut, after=done, samples=samples, part=(low, high), table=table)
        cut = done


def column_tensor(column: Any) -> torch.Tensor:
    """A column of numbers, bools or fixed-size lists of them, without nulls, as one tensor of shape (n, …).

    Raises:
        InvalidInputError: ``input.column-type``.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    shape = [len(array)]
    while pa.types.is_fixed_size_list(array.type) and not array.null_count:
        shape.append(array.type.list_size)
        array = array.flatten()
    kind = array.type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if array.null_count or not number:
        raise InvalidInputError(
            ErrorCode.INPUT_COLUMN_TYPE, "only numbers and fixed-size lists without nulls become one tensor"
        )
    return torch.from_numpy(np.array(array.to_numpy(zero_copy_only=False))).reshape(shape)


def byte_rows(column: Any, length: int, *, pad: int) -> torch.Tensor:
    """The first ``length`` bytes of each string or binary value, shape (n, length), int64, padded with ``pad``.

    A null is a row of padding.
    """
    out = torch.full((len(column), length), pad, dtype=torch.int64)
    for index, value in enumerate(column.cast(pa.large_binary())):
        data = value.as_buffer() if value.is_valid else None
        if data is not None and data.size:
            size = min(length, data.size)
            out[index, :size] = torch.from_numpy(np.frombuffer(data, np.uint8, size).astype(np.int64))
    return out

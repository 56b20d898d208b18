"""Several sample orders laid into each other by weight, still a pure function. Source: schemas/SPEC.md#mixing.

A run on one release is a mix of one input, so whoever steps through samples asks here. Which input a
position belongs to depends on the seed and the weights alone; each input counts its own samples and
begins its next epoch where it is exhausted, so the one cursor says where all of them stand.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shardrel.data.order import (
    SampleOrder,
    Samples,
    batch_at,
    block_at,
    block_end,
    check_order,
    order_key,
    samples_of,
    splitmix64,
)
from shardrel.errors import ErrorCode, InvalidInputError

MIX_POSITIONS = 1024
"""A mix block has at least so many positions."""

Inputs = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class MixInput:
    """One release of a mix; ``weight`` in millionths."""

    order: SampleOrder
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedOrder:
    """What decides the order of a mix.

    Attributes:
        inputs: In the order of the run record; their shards are numbered through.
        seed: Of the interleaving.
    """

    inputs: tuple[MixInput, ...]
    seed: int

    @property
    def epoch_samples(self) -> int:
        """Samples of one epoch of every input."""
        return sum(one.order.epoch_samples for one in self.inputs)


RunOrder = SampleOrder | MixedOrder


def check_run_order(order: RunOrder) -> RunOrder:
    """Refuse parameters that give no order.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    if isinstance(order, SampleOrder):
        return check_order(order)
    if not 1 <= len(order.inputs) <= 255 or any(not 1 <= one.weight <= 1_000_000 for one in order.inputs):
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "a mix has 1 to 255 inputs of 1 to 1,000,000 millionths")
    for one in order.inputs:
        check_order(one.order)
    return order


def counts_at(order: RunOrder, cursor: int, global_batch: int, steps: int) -> list[int]:
    """Samples of each of the next batches: a batch of a single order never spans two epochs, one of a mix is full.

    Raises:
        InvalidInputError: ``input.invalid`` for an empty batch.
    """
    if global_batch < 1 or cursor < 0:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "a global batch has at least one sample")
    if isinstance(order, MixedOrder):
        return [global_batch] * steps
    counts, start, end = [], cursor % order.epoch_samples, order.epoch_samples
    for _ in range(steps):
        counts.append(min(global_batch, end - start))
        start = (start + counts[-1]) % end
    return counts


def samples_from(order: RunOrder, cursor: int, count: int) -> Samples:
    """The next samples in global order, over the ends of epochs."""
    if isinstance(order, MixedOrder) and count > 0:
        return _mixed(order, cursor, count)
    parts: list[Samples] = []
    while isinstance(order, SampleOrder) and count > 0:
        span = batch_at(order, cursor, count)
        parts.append(samples_of(order, span))
        cursor, count = cursor + span.count, count - span.count
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty((0, 2), np.uint32)


def epoch_at(order: RunOrder, cursor: int) -> int:
    """Epochs that every input has been through."""
    if isinstance(order, SampleOrder):
        return cursor // order.epoch_samples
    counts = consumed_of(order, cursor)
    return min(count // one.order.epoch_samples for count, one in zip(counts, order.inputs, strict=True))


def consumed_of(mix: MixedOrder, cursor: int) -> tuple[int, ...]:
    """Samples of each input before a position."""
    block, inside = divmod(cursor, mix_length(mix))
    before = np.bincount(_block(mix, block)[:inside], minlength=len(mix.inputs))
    return tuple(block * share + int(more) for share, more in zip(_shares(mix), before, strict=True))


def first_shards(mix: MixedOrder) -> tuple[int, ...]:
    """Number of each input's first shard, when the shards of all inputs are counted through."""
    sizes = [len(one.order.sizes) for one in mix.inputs]
    return tuple(sum(sizes[:index]) for index in range(len(sizes)))


def mix_length(mix: MixedOrder) -> int:
    """Positions of a mix block: the shortest exact period of the weights, repeated up to ``MIX_POSITIONS``."""
    return sum(_shares(mix))


@functools.lru_cache(maxsize=8)
def _shares(mix: MixedOrder) -> tuple[int, ...]:
    weights = [one.weight for one in mix.inputs]
    common = math.gcd(*weights)
    repeats = -(-MIX_POSITIONS * common // sum(weights))
    return tuple(weight // common * repeats for weight in weights)


@functools.lru_cache(maxsize=8)
def _block(mix: MixedOrder, block: int) -> Inputs:
    laid = np.repeat(np.arange(len(mix.inputs), dtype=np.uint8), _shares(mix))
    return laid[np.argsort(splitmix64(order_key(mix.seed, block, 2, 0), len(laid)), kind="stable")]


def _positions(mix: MixedOrder, start: int, count: int) -> Inputs:
    length = mix_length(mix)
    first, last = start // length, (start + count - 1) // length
    whole = np.concatenate([_block(mix, block) for block in range(first, last + 1)])
    return whole[start - first * length :][:count]


def _mixed(mix: MixedOrder, start: int, count: int) -> Samples:
    inputs = _positions(mix, start, count)
    consumed = consumed_of(mix, start)
    out = np.empty((count, 2), np.uint32)
    for number, first in enumerate(first_shards(mix)):
        at = np.flatnonzero(inputs == number)
        taken = samples_from(mix.inputs[number].order, consumed[number], len(at))
        taken[:, 0] += np.uint32(first)
        out[at] = taken
    return out


def shards_ahead(order: RunOrder, cursor: int) -> list[int]:
    """Numbers of the shards around and behind a position, for whoever opens them before they are needed."""
    if isinstance(order, SampleOrder):
        return _two_blocks(order, cursor)
    found = []
    for one, first, count in zip(order.inputs, first_shards(order), consumed_of(order, cursor), strict=True):
        found += [first + shard for shard in _two_blocks(one.order, count)]
    return found


def open_shards(order: RunOrder) -> int:
    """Shards that two blocks of every input have: what it takes to read on without opening one twice."""
    orders = [order] if isinstance(order, SampleOrder) else [one.order for one in order.inputs]
    return sum(2 * one.block_shards + 1 for one in orders)


def _two_blocks(order: SampleOrder, cursor: int) -> list[int]:
    epoch, start = divmod(cursor, order.epoch_samples)
    now = block_at(order, epoch, start)
    end = block_end(order, epoch, start)
    after = block_at(order, epoch, end) if end < order.epoch_samples else block_at(order, epoch + 1, 0)
    return [*now, *after]

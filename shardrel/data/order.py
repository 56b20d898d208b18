"""Sample order as a pure function of shard sizes, seed and epoch. Source: schemas/SPEC.md#sample-order.

Nothing here reads a file or knows a world size. An epoch is laid out in blocks of a few shards; a
block's permutation is computed when a position in it is asked for, so memory follows the block and
not the dataset, and a resume costs one block wherever the cursor stands. ``shardrel.data.mix`` lays
several such orders into each other.
"""

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from shardrel.digest import Domain, domain_hash, u64
from shardrel.errors import ErrorCode, InvalidInputError

ORDER_FUNCTION: Literal["block-splitmix64.v1"] = "block-splitmix64.v1"

Samples = npt.NDArray[np.uint32]
"""Shape (n, 2), uint32: shard number and index among that shard's samples of the split."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, kw_only=True)
class SampleOrder:
    """What decides the order. Its hash and its sum are kept: both memos ask for them at every step.

    Attributes:
        sizes: Samples of the split in shard number i; 0 where the split doesn't occur.
        seed: Of the whole run; 0 … 2^53−1.
        block_shards: Shards that are shuffled into each other.
    """

    sizes: tuple[int, ...]
    seed: int
    block_shards: int

    @functools.cached_property
    def epoch_samples(self) -> int:
        """Samples of one epoch."""
        return sum(self.sizes)

    @functools.cached_property
    def _hashed(self) -> int:
        return hash((self.sizes, self.seed, self.block_shards))

    def __hash__(self) -> int:
        return self._hashed


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpan:
    """One global batch: ``count`` positions of ``epoch`` from ``start``."""

    epoch: int
    start: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLayout:
    """Shards of an epoch in their order; block b holds shards ``b·block_shards …`` and begins at ``starts[b]``."""

    shards: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.int64]


def check_order(order: SampleOrder) -> SampleOrder:
    """Refuse parameters that give no order.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    if order.epoch_samples == 0:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "the release has no sample of this split")
    if order.block_shards < 1 or not 0 <= order.seed < 2**53:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "a block has at least one shard; a seed is in 0 … 2^53-1")
    return order


def batch_at(order: SampleOrder, cursor: int, global_batch: int) -> BatchSpan:
    """The batch that begins after ``cursor`` consumed samples; the last one of an epoch may be short."""
    if global_batch < 1 or cursor < 0:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "a global batch has at least one sample")
    epoch, start = divmod(cursor, order.epoch_samples)
    return BatchSpan(epoch=epoch, start=start, count=min(global_batch, order.epoch_samples - start))


def block_at(order: SampleOrder, epoch: int, start: int) -> tuple[int, ...]:
    """Numbers of the shards that the block around a position is made of, for whoever opens them ahead."""
    layout = _layout(order, epoch)
    block = int(np.searchsorted(layout.starts, start, side="right")) - 1
    shards = layout.shards[block * order.block_shards : (block + 1) * order.block_shards]
    return tuple(int(shard) for shard in shards)


def block_end(order: SampleOrder, epoch: int, start: int) -> int:
    """The position behind the block around a position."""
    starts = _layout(order, epoch).starts
    after = int(np.searchsorted(starts, start, side="right"))
    return int(starts[after]) if after < len(starts) else order.epoch_samples


def rank_part(count: int, rank: int, world_size: int) -> tuple[int, int]:
    """Half-open range of a batch of ``count`` samples that falls to a rank; may be empty."""
    return rank * count // world_size, (rank + 1) * count // world_size


def samples_of(order: SampleOrder, span: BatchSpan) -> Samples:
    """Shard and index of each sample of a span, in global order."""
    layout = _layout(order, span.epoch)
    out = np.empty((span.count, 2), np.uint32)
    done = 0
    while done < span.count:
        at = span.start + done
        block = int(np.searchsorted(layout.starts, at, side="right")) - 1
        inside = at - int(layout.starts[block])
        part = _block(order, span.epoch, block)[inside : inside + span.count - done]
        out[done : done + len(part)] = part
        done += len(part)
    return out


def splitmix64(seed: int, count: int) -> npt.NDArray[np.uint64]:
    """The first ``count`` outputs of SplitMix64."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + _GOLDEN * np.arange(1, count + 1, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)), np.uint64)


def order_key(seed: int, epoch: int, level: int, index: int) -> int:
    """First 8 bytes of ``H(order, u64(seed) ‖ u64(epoch) ‖ u64(level) ‖ u64(index))``."""
    raw = domain_hash(Domain.ORDER, u64(seed), u64(epoch), u64(level), u64(index))
    return int.from_bytes(raw[:8], "little")


# Both memos hold pure results; their sizes bound the memory to a few blocks, of every input of a mix.
@functools.lru_cache(maxsize=8)
def _layout(order: SampleOrder, epoch: int) -> EpochLayout:
    used = np.flatnonzero(np.asarray(order.sizes, np.int64)).astype(np.uint32)
    keys = np.array([order_key(order.seed, epoch, 0, int(index)) for index in used], np.uint64)
    shards = used[np.argsort(keys, kind="stable")]
    totals = np.concatenate([[0], np.cumsum(np.asarray(order.sizes, np.int64)[shards])])
    return EpochLayout(shards=shards, starts=totals[: len(shards) : order.block_shards])


@functools.lru_cache(maxsize=8)
def _block(order: SampleOrder, epoch: int, block: int) -> Samples:
    first = block * order.block_shards
    shards = _layout(order, epoch).shards[first : first + order.block_shards]
    sizes = [order.sizes[int(shard)] for shard in shards]
    rows = np.empty((sum(sizes), 2), np.uint32)
    rows[:, 0] = np.repeat(shards, sizes)
    rows[:, 1] = np.concatenate([np.arange(size, dtype=np.uint32) for size in sizes])
    return rows[np.argsort(splitmix64(order_key(order.seed, epoch, 1, block), len(rows)), kind="stable")]

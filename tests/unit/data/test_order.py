"""Sample order: fixed values, refusals, memory."""

import hashlib

import numpy as np
import pytest

from shardrel.data.order import BatchSpan, SampleOrder, batch_at, check_order, samples_of, splitmix64
from shardrel.errors import ErrorCode, InvalidInputError

_MASK = 2**64 - 1


def slow_splitmix64(seed: int, count: int) -> list[int]:
    """The published algorithm, one number after another."""
    out = []
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) & _MASK
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        out.append(z ^ (z >> 31))
    return out


def slow_key(seed: int, epoch: int, level: int, index: int) -> int:
    numbers = b"".join(n.to_bytes(8, "little") for n in (seed, epoch, level, index))
    return int.from_bytes(hashlib.sha256(b"shardrel/order\0\0" + numbers).digest()[:8], "little")


def slow_epoch(order: SampleOrder, epoch: int) -> list[list[int]]:
    """The text of the specification, sample by sample."""
    used = [shard for shard, size in enumerate(order.sizes) if size]
    shards = sorted(used, key=lambda shard: (slow_key(order.seed, epoch, 0, shard), shard))
    out: list[list[int]] = []
    for block, first in enumerate(range(0, len(shards), order.block_shards)):
        samples = [[s, row] for s in shards[first : first + order.block_shards] for row in range(order.sizes[s])]
        keys = slow_splitmix64(slow_key(order.seed, epoch, 1, block), len(samples))
        out += [samples[index] for index in sorted(range(len(samples)), key=lambda index: (keys[index], index))]
    return out


def test_splitmix64_gives_the_published_numbers() -> None:
    assert splitmix64(1234567, 3).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert splitmix64(_MASK, 50).tolist() == slow_splitmix64(_MASK, 50)


@pytest.mark.parametrize("epoch", [0, 1, 5])
def test_the_order_is_what_the_specification_says(epoch: int) -> None:
    order = SampleOrder(sizes=(3, 0, 7, 5, 1, 4), seed=42, block_shards=2)
    assert samples_of(order, BatchSpan(epoch=epoch, start=0, count=20)).tolist() == slow_epoch(order, epoch)


def test_epochs_and_seeds_differ() -> None:
    order = SampleOrder(sizes=(50, 50), seed=1, block_shards=2)
    span = BatchSpan(epoch=0, start=0, count=100)
    first = samples_of(order, span)
    assert not np.array_equal(first, samples_of(order, BatchSpan(epoch=1, start=0, count=100)))
    assert not np.array_equal(first, samples_of(SampleOrder(sizes=(50, 50), seed=2, block_shards=2), span))


def test_the_last_batch_of_an_epoch_is_short_and_the_next_one_full() -> None:
    order = SampleOrder(sizes=(5, 5), seed=0, block_shards=1)
    assert batch_at(order, 8, 4) == BatchSpan(epoch=0, start=8, count=2)
    assert batch_at(order, 10, 4) == BatchSpan(epoch=1, start=0, count=4)


@pytest.mark.parametrize(
    "order",
    [
        SampleOrder(sizes=(0, 0), seed=0, block_shards=1),
        SampleOrder(sizes=(1,), seed=0, block_shards=0),
        SampleOrder(sizes=(1,), seed=-1, block_shards=1),
        SampleOrder(sizes=(1,), seed=2**53, block_shards=1),
    ],
)
def test_parameters_that_give_no_order_are_refused(order: SampleOrder) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_order(order)
    assert caught.value.code == ErrorCode.INPUT_INVALID


def test_a_batch_of_no_sample_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        batch_at(SampleOrder(sizes=(1,), seed=0, block_shards=1), 0, 0)


def test_a_position_in_a_large_order_needs_only_its_block() -> None:
    order = SampleOrder(sizes=(1_000_000,) * 1000, seed=7, block_shards=1)
    samples = samples_of(order, BatchSpan(epoch=0, start=999_999_990, count=10))
    assert len(np.unique(samples[:, 0])) == 1

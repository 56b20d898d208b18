"""A mix of several orders: exact shares, each input in its own order, one ledger for every topology."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.data import ledger
from shardrel.data.mix import (
    MixedOrder,
    MixInput,
    RunOrder,
    consumed_of,
    counts_at,
    epoch_at,
    first_shards,
    mix_length,
    samples_from,
)
from shardrel.data.order import SampleOrder, rank_part
from shardrel.digest import digest_of
from shardrel.records.checkpoint import Cut

ROOT = digest_of(b"root")

orders = st.builds(
    SampleOrder,
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any).map(tuple),
    seed=st.integers(0, 2**53 - 1),
    block_shards=st.integers(1, 4),
)
mixes = st.builds(
    MixedOrder,
    inputs=st.lists(
        st.builds(MixInput, order=orders, weight=st.sampled_from([100_000, 250_000, 300_000, 700_000])),
        min_size=1,
        max_size=3,
    ).map(tuple),
    seed=st.integers(0, 2**53 - 1),
)


def taken(order: RunOrder, cursor: int, count: int) -> list[tuple[int, int]]:
    return [(int(shard), int(index)) for shard, index in samples_from(order, cursor, count)]


@settings(max_examples=25, deadline=None)
@given(mix=mixes, block=st.integers(0, 3))
def test_every_mix_block_has_exactly_the_weights(mix: MixedOrder, block: int) -> None:
    length = mix_length(mix)
    before, after = (consumed_of(mix, n * length) for n in (block, block + 1))
    shares = [b - a for a, b in zip(before, after, strict=True)]
    total = sum(one.weight for one in mix.inputs)
    assert [share * total for share in shares] == [one.weight * length for one in mix.inputs]
    assert sum(consumed_of(mix, block * length + 17)) == block * length + 17


def test_weights_without_a_common_divisor_are_exact_over_a_million_positions() -> None:
    order = SampleOrder(sizes=(7,), seed=1, block_shards=1)
    mix = MixedOrder(inputs=(MixInput(order=order, weight=333_333), MixInput(order=order, weight=666_667)), seed=2)
    assert mix_length(mix) == 1_000_000
    assert consumed_of(mix, 1_000_000) == (333_333, 666_667)
    assert len(taken(mix, 999_990, 20)) == 20


@settings(max_examples=25, deadline=None)
@given(mix=mixes, cursor=st.integers(0, 5000), count=st.integers(1, 200))
def test_each_input_goes_through_its_own_order_over_its_own_epochs(mix: MixedOrder, cursor: int, count: int) -> None:
    found = taken(mix, cursor, count)
    before, after = consumed_of(mix, cursor), consumed_of(mix, cursor + count)
    bounds = [*first_shards(mix), sum(len(one.order.sizes) for one in mix.inputs)]
    for number, one in enumerate(mix.inputs):
        low, high = bounds[number], bounds[number + 1]
        mine = [(shard - low, index) for shard, index in found if low <= shard < high]
        assert mine == taken(one.order, before[number], after[number] - before[number])
    epochs = [done // one.order.epoch_samples for done, one in zip(before, mix.inputs, strict=True)]
    assert epoch_at(mix, cursor) == min(epochs)


@settings(max_examples=25, deadline=None)
@given(mix=mixes, start=st.integers(0, 3000), first=st.integers(0, 60), second=st.integers(0, 60))
def test_a_mix_asked_for_in_parts_is_the_same(mix: MixedOrder, start: int, first: int, second: int) -> None:
    parts = taken(mix, start, first) + taken(mix, start + first, second)
    assert parts == taken(mix, start, first + second)


def train(order: RunOrder, cut: Cut, jobs: list[tuple[int, int, int]]) -> tuple[Cut, list[tuple[int, int]]]:
    """Jobs one after the other: (world size, global batch, steps), each from the cut of the one before."""
    consumed: list[tuple[int, int]] = []
    for world_size, global_batch, steps in jobs:
        for _ in range(steps):
            (count,) = counts_at(order, cut.cursor, global_batch, 1)
            samples = samples_from(order, cut.cursor, count)
            parts = [samples[slice(*rank_part(count, rank, world_size))] for rank in range(world_size)]
            assert np.array_equal(np.concatenate(parts), samples)
            consumed += [(int(shard), int(index)) for shard, index in samples]
            cut = ledger.after(cut, samples, order)
    return cut, consumed


@settings(max_examples=40, deadline=None)
@given(
    order=st.one_of(orders, mixes),
    global_batch=st.integers(1, 20),
    worlds=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 6)), min_size=1, max_size=5),
)
def test_the_ledger_is_equal_for_every_sequence_of_world_sizes(
    order: RunOrder, global_batch: int, worlds: list[tuple[int, int]]
) -> None:
    steps = sum(count for _, count in worlds)
    cut, consumed = train(order, ledger.genesis(ROOT), [(w, global_batch, n) for w, n in worlds])
    whole, expected = train(order, ledger.genesis(ROOT), [(1, global_batch, steps)])
    assert (cut, consumed) == (whole, expected)
    assert cut == ledger.replay(ledger.genesis(ROOT), order, global_batch, steps)
    assert consumed == taken(order, 0, len(consumed))


@settings(max_examples=25, deadline=None)
@given(
    order=st.one_of(orders, mixes),
    jobs=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 20), st.integers(0, 5)), max_size=4),
)
def test_jobs_of_any_world_size_and_batch_consume_the_one_sequence(
    order: RunOrder, jobs: list[tuple[int, int, int]]
) -> None:
    cut, consumed = train(order, ledger.genesis(ROOT), jobs)
    assert consumed == taken(order, 0, cut.cursor)

"""Sample order: exact, the same for every world size, resumable anywhere."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.data import ledger
from shardrel.data.order import BatchSpan, SampleOrder, batch_at, rank_part, samples_of
from shardrel.digest import digest_of

ROOT = digest_of(b"root")

orders = st.builds(
    SampleOrder,
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=9).filter(any).map(tuple),
    seed=st.integers(0, 2**53 - 1),
    block_shards=st.integers(1, 10),
)


def consumed(order: SampleOrder, cursor: int, total: int, global_batch: int, world_size: int) -> list[tuple[int, int]]:
    """What the ranks take together, in global order, from ``cursor`` until ``total`` samples are consumed."""
    out: list[tuple[int, int]] = []
    while cursor < total:
        span = batch_at(order, cursor, min(global_batch, total - cursor))
        samples = samples_of(order, span)
        for rank in range(world_size):
            low, high = rank_part(span.count, rank, world_size)
            out.extend((int(shard), int(row)) for shard, row in samples[low:high])
        cursor += span.count
    return out


@settings(max_examples=60, deadline=None)
@given(order=orders, epoch=st.integers(0, 3))
def test_an_epoch_has_every_sample_exactly_once(order: SampleOrder, epoch: int) -> None:
    samples = samples_of(order, BatchSpan(epoch=epoch, start=0, count=order.epoch_samples))
    every = [(shard, row) for shard, size in enumerate(order.sizes) for row in range(size)]
    assert sorted(map(tuple, samples.tolist())) == every


@settings(max_examples=30, deadline=None)
@given(order=orders, global_batch=st.integers(1, 20))
def test_every_world_size_consumes_the_same_global_sequence(order: SampleOrder, global_batch: int) -> None:
    total = 2 * order.epoch_samples
    one = consumed(order, 0, total, global_batch, 1)
    for world_size in range(2, 8):
        assert consumed(order, 0, total, global_batch, world_size) == one


@settings(max_examples=60, deadline=None)
@given(order=orders, first=st.integers(1, 20), second=st.integers(1, 20), data=st.data())
def test_a_resume_after_any_cut_equals_no_stop(
    order: SampleOrder, first: int, second: int, data: st.DataObject
) -> None:
    total = 2 * order.epoch_samples + 1
    cut = data.draw(st.integers(0, total))
    stopped = consumed(order, 0, cut, first, 4) + consumed(order, cut, total, second, 3)
    assert stopped == consumed(order, 0, total, 1, 1)


@settings(max_examples=60, deadline=None)
@given(order=orders, global_batch=st.integers(1, 20), cursor=st.integers(0, 500))
def test_a_batch_never_spans_two_epochs_and_is_split_without_loss(
    order: SampleOrder, global_batch: int, cursor: int
) -> None:
    span = batch_at(order, cursor, global_batch)
    assert 1 <= span.count <= global_batch
    assert span.start + span.count <= order.epoch_samples
    for world_size in range(1, 8):
        parts = [rank_part(span.count, rank, world_size) for rank in range(world_size)]
        assert [low for low, _ in parts[1:]] == [high for _, high in parts[:-1]]
        assert (parts[0][0], parts[-1][1]) == (0, span.count)
        assert max(high - low for low, high in parts) - min(high - low for low, high in parts) <= 1


@settings(max_examples=40, deadline=None)
@given(order=orders, global_batch=st.integers(1, 20), steps=st.integers(0, 12), data=st.data())
def test_the_ledger_of_a_resumed_run_equals_that_of_an_uninterrupted_one(
    order: SampleOrder, global_batch: int, steps: int, data: st.DataObject
) -> None:
    stop = data.draw(st.integers(0, steps))
    whole = ledger.replay(ledger.genesis(ROOT), order, global_batch, steps)
    half = ledger.replay(ledger.genesis(ROOT), order, global_batch, stop)
    assert ledger.replay(half, order, global_batch, steps - stop) == whole


def test_the_ledger_tells_another_sample_order_and_step_apart() -> None:
    start = ledger.genesis(ROOT).ledger
    samples = np.array([[0, 1], [0, 2]], np.uint32)
    assert ledger.chain(start, 0, samples) != ledger.chain(start, 0, samples[::-1])
    assert ledger.chain(start, 0, samples) != ledger.chain(start, 1, samples)
    assert ledger.chain(start, 0, samples) != ledger.chain(start, 0, samples[:1])

"""The steps of a pinned run as a dataset or a loader of torch. Source: schemas/SPEC.md#runs, #sample-order."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from shardrel.checkpoint.group import Group
from shardrel.data.batches import StepBatch
from shardrel.data.cache import ShardCache
from shardrel.data.dataset import CutDataset, PackedDataset, Step, StepDataset, StepLoader, StepSource
from shardrel.data.packing import PackedBatch, PackPlan
from shardrel.data.shared_counts import SharedCounts
from shardrel.records.checkpoint import Cut
from shardrel.train.inputs import entries_of, fields_of, split_of
from shardrel.train.pin import PinnedRun
from shardrel.train.watch import Watch, watched

Batch = TypeVar("Batch", bound=Step)

Cache = ShardCache | Callable[[], ShardCache]
"""Of the host, or what makes it in the process that reads: a client of S3 must not be forked."""


def source_of(pin: PinnedRun) -> StepSource:
    """What the run's steps are made of."""
    return StepSource(
        entries=entries_of(pin.inputs),
        fields=fields_of(pin.inputs, pin.plan.columns),
        split=split_of(pin.inputs, pin.plan.split),
        order=pin.order,
        global_batch=pin.plan.global_batch,
    )


def dataset(
    group: Group,
    cache: Cache,
    pin: PinnedRun,
    cut: Cut,
    *,
    steps: int | None = None,
    counts: SharedCounts | None = None,
) -> StepDataset:
    """The run's steps from a cut on, for a ``DataLoader`` or a ``StatefulDataLoader`` with ``batch_size=None``.

    What its workers fetch, decode, set aside and prepare is in the figures of this rank.

    Ranks: all; every rank gets every step.
    """
    source, rank, world_size = source_of(pin), group.rank, group.world_size
    made = StepDataset(source, cache, cut, rank=rank, world_size=world_size, steps=steps, counts=counts)
    _show(cache, pin, made.counts, made)
    return made


def packed_dataset(
    group: Group,
    cache: Cache,
    pin: PinnedRun,
    cut: Cut,
    plan: PackPlan,
    *,
    steps: int | None = None,
    counts: SharedCounts | None = None,
) -> PackedDataset:
    """As ``dataset``, several samples packed into one row; the run's global batch counts for nothing.

    Ranks: all; every rank gets every step.
    """
    source, rank, world_size = source_of(pin), group.rank, group.world_size
    made = PackedDataset(source, cache, cut, plan, rank=rank, world_size=world_size, steps=steps, counts=counts)
    _show(cache, pin, made.counts, made)
    return made


def loader(
    group: Group,
    cache: Cache,
    pin: PinnedRun,
    cut: Cut,
    *,
    workers: int = 0,
    steps: int | None = None,
    pin_memory: bool = False,
) -> StepLoader[StepBatch]:
    """The run's steps from a cut on, made ahead by worker processes.

    Args:
        group: All ranks.
        cache: Of this host; a function that makes one where workers read from S3.
        pin: What ``join`` gave.
        cut: What was consumed before.
        workers: Processes of this rank that make batches ahead.
        steps: The step to end before, counted from the run's beginning; None for no end.
        pin_memory: Hand tensors out in page-locked memory.

    Ranks: all; every rank gets every step.
    """
    counts = SharedCounts()

    def make(begin: Cut) -> StepDataset:
        return dataset(group, cache, pin, begin, steps=steps_left(steps, begin), counts=counts)

    made = _WatchedLoader(make, cut, pin.watch, workers=workers, pin_memory=pin_memory)
    _show(cache, pin, counts, made)
    return made


def packed(
    group: Group,
    cache: Cache,
    pin: PinnedRun,
    cut: Cut,
    plan: PackPlan,
    *,
    workers: int = 0,
    steps: int | None = None,
    pin_memory: bool = False,
) -> StepLoader[PackedBatch]:
    """As ``loader``, several samples packed into one row; the run's global batch counts for nothing.

    Args:
        group: All ranks.
        cache: Of this host; a function that makes one where workers read from S3.
        pin: What ``join`` gave.
        cut: What was consumed before.
        plan: The same on every rank and at every resume.
        workers: Processes of this rank that make batches ahead.
        steps: The step to end before, counted from the run's beginning; None for no end.
        pin_memory: Hand tensors out in page-locked memory.

    Ranks: all; every rank gets every step.
    """
    counts = SharedCounts()

    def make(begin: Cut) -> PackedDataset:
        return packed_dataset(group, cache, pin, begin, plan, steps=steps_left(steps, begin), counts=counts)

    made = _WatchedLoader(make, cut, pin.watch, workers=workers, pin_memory=pin_memory)
    _show(cache, pin, counts, made)
    return made


def steps_left(steps: int | None, begin: Cut) -> int | None:
    """What is left to do from a cut on, of a number of steps that counts from the run's beginning."""
    return None if steps is None else max(steps - begin.step, 0)


def _show(cache: Cache, pin: PinnedRun, counts: SharedCounts, owner: object) -> None:
    """From now on the run's figures hold what the owner's processes count, and what its cache does."""
    pin.watch.counts_of(counts, owner)
    if isinstance(cache, ShardCache):
        pin.watch.counts_of(cache.counts)


class _WatchedLoader(StepLoader[Batch]):
    """Counts how long the training loop waits."""

    def __init__(
        self, make: Callable[[Cut], CutDataset[Batch]], cut: Cut, watch: Watch, *, workers: int, pin_memory: bool
    ) -> None:
        super().__init__(make, cut, workers=workers, pin_memory=pin_memory)
        self._watch = watch

    def __iter__(self) -> Iterator[Batch]:
        return watched(super().__iter__(), self._watch, lambda batch: batch.size)

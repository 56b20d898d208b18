"""The steps of a pinned run as a dataset or a loader of torch. Source: schemas/SPEC.md#runs, #sample-order."""

from collections.abc import Callable, Iterator

from shardrel.checkpoint.group import Group
from shardrel.data.batches import Seat, StepBatch
from shardrel.data.cache import ShardCache
from shardrel.data.dataset import StepDataset, StepLoader, StepSource
from shardrel.data.decoded import DecodedCache
from shardrel.data.mix import open_shards
from shardrel.data.packing import PackedBatch, PackPlan, packed_batches
from shardrel.data.reader import ShardReader
from shardrel.records.checkpoint import Cut
from shardrel.train.inputs import entries_of, fields_of, split_of
from shardrel.train.pin import PinnedRun
from shardrel.train.watch import Watch, watched


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
    cache: ShardCache | Callable[[], ShardCache],
    pin: PinnedRun,
    cut: Cut,
    *,
    steps: int | None = None,
) -> StepDataset:
    """The run's steps from a cut on, for a ``DataLoader`` or a ``StatefulDataLoader`` with ``batch_size=None``.

    Ranks: all; every rank gets every step.
    """
    return StepDataset(source_of(pin), cache, cut, rank=group.rank, world_size=group.world_size, steps=steps)


def packed(group: Group, cache: ShardCache, pin: PinnedRun, cut: Cut, plan: PackPlan) -> Iterator[PackedBatch]:
    """The run's steps from a cut on, several samples packed into one row; the plan's global batch counts for nothing.

    Args:
        group: All ranks.
        cache: Of this host.
        pin: What ``join`` gave.
        cut: What was consumed before.
        plan: The same on every rank and at every resume.

    Ranks: all; every rank gets every step.
    """
    source = source_of(pin)
    reader = ShardReader(
        DecodedCache(cache), source.entries, source.fields, source.split, keep=open_shards(source.order)
    )
    seat = Seat(rank=group.rank, world_size=group.world_size)
    # Samples of a rank's rows are not counted apart, so its share of the step's stands for them.
    return watched(
        packed_batches(reader, source.order, cut, plan=plan, seat=seat),
        pin.watch,
        lambda batch: len(batch.samples) // group.world_size,
    )


def loader(
    group: Group,
    cache: ShardCache | Callable[[], ShardCache],
    pin: PinnedRun,
    cut: Cut,
    *,
    workers: int = 0,
    steps: int | None = None,
    pin_memory: bool = False,
) -> StepLoader:
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

    def make(begin: Cut) -> StepDataset:
        left = None if steps is None else max(steps - begin.step, 0)
        return dataset(group, cache, pin, begin, steps=left)

    return _WatchedLoader(make, cut, pin.watch, workers=workers, pin_memory=pin_memory)


class _WatchedLoader(StepLoader):
    """Counts how long the training loop waits."""

    def __init__(
        self, make: Callable[[Cut], StepDataset], cut: Cut, watch: Watch, *, workers: int, pin_memory: bool
    ) -> None:
        super().__init__(make, cut, workers=workers, pin_memory=pin_memory)
        self._watch = watch

    def __iter__(self) -> Iterator[StepBatch]:
        return watched(super().__iter__(), self._watch, lambda batch: batch.size)

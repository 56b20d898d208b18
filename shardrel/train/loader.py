"""The steps of a pinned run as a dataset or a loader of torch. Source: schemas/SPEC.md#runs, #sample-order."""

from collections.abc import Callable

from shardrel.checkpoint.group import Group
from shardrel.data.cache import ShardCache
from shardrel.data.dataset import StepDataset, StepLoader, StepSource
from shardrel.data.decoded import ShardEntry
from shardrel.data.encryption import ReleaseLocks
from shardrel.data.plan import effective_split
from shardrel.data.shards import select_fields
from shardrel.records.checkpoint import Cut
from shardrel.train.pin import PinnedRun


def source_of(pin: PinnedRun) -> StepSource:
    """What the run's steps are made of."""
    totals = pin.release.totals
    locks = None if pin.release.encryption is None else ReleaseLocks(release=pin.release, unlocked=pin.unlocked)
    return StepSource(
        entries=tuple(ShardEntry(shard=shard, schema=pin.schema, locks=locks) for shard in pin.release.shards),
        fields=select_fields(pin.schema, pin.plan.columns),
        split=effective_split(pin.release, pin.plan.split),
        order=pin.order,
        global_batch=pin.plan.global_batch,
        row_bytes=totals.logical_bytes // totals.records,
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

    return StepLoader(make, cut, workers=workers, pin_memory=pin_memory)

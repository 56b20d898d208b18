"""Steps of a pinned run as a dataset of torch, with exact state. Source: schemas/SPEC.md#sample-order."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from shardrel.data.batches import Seat, StepBatch, batches
from shardrel.data.cache import ShardCache
from shardrel.data.decoded import DecodedCache, ShardEntry
from shardrel.data.mix import RunOrder, open_shards
from shardrel.data.packing import PackedBatch, PackPlan, packed_batches
from shardrel.data.reader import ShardReader
from shardrel.data.shared_counts import SharedCounts
from shardrel.errors import ErrorCode, InvalidInputError, ShardrelError
from shardrel.records.checkpoint import Cut
from shardrel.records.schema import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSource:
    """What steps are made of, the same on every rank.

    Attributes:
        entries: All shards of all inputs, by number.
        fields: The wanted columns.
        split: Null where every record is of the run's split.
        order: Of the samples.
        global_batch: Samples a step, over all ranks.
    """

    entries: tuple[ShardEntry, ...]
    fields: tuple[Field, ...]
    split: str | None
    order: RunOrder
    global_batch: int


class Step(Protocol):
    """What every kind of batch tells of itself."""

    @property
    def before(self) -> Cut:
        """The cut that the step starts from."""
        ...

    @property
    def after(self) -> Cut:
        """The cut once the step is done."""
        ...

    @property
    def size(self) -> int:
        """Samples in this rank's part."""
        ...


Batch = TypeVar("Batch", bound=Step)


class CutDataset(IterableDataset[Batch], Generic[Batch]):
    """Steps from a cut on, for ``DataLoader(dataset, batch_size=None)`` with any number of workers.

    Worker k of n makes every n-th step, so that the loader hands out all of them in order. With torchdata's
    ``StatefulDataLoader`` every worker keeps its own state; to go on with other workers or at another world size, begin
    a dataset at the ``after`` of the last batch that was used, or take a :class:`StepLoader`.

    Args:
        source: What the steps are made of.
        cache: Of the host, or a function that makes it in the process that reads: a client of S3 must not be forked.
        cut: What was consumed before.
        rank: Of this process's job.
        world_size: Of the job.
        steps: How many; None for no end.
        counts: Where the processes that make batches count; None for numbers of its own.

    Attributes:
        counts: What the processes that make batches have counted, all of them together.
    """

    def __init__(
        self,
        source: StepSource,
        cache: ShardCache | Callable[[], ShardCache],
        cut: Cut,
        *,
        rank: int = 0,
        world_size: int = 1,
        steps: int | None = None,
        counts: SharedCounts | None = None,
    ) -> None:
        self._source = source
        self._cache = cache
        self._rank = rank
        self._world_size = world_size
        self._first = cut.step
        self._last = None if steps is None else cut.step + steps
        self._cut = cut
        self.counts = counts or SharedCounts()

    def __iter__(self) -> Iterator[Batch]:
        seat = self._seat()
        cache, counts = self._cache_of(seat), self.counts.of(seat.worker)
        source = self._source
        reader = ShardReader(
            DecodedCache(cache), source.entries, source.fields, source.split, keep=open_shards(source.order)
        )
        try:
            for batch in self._batches(reader, seat):
                if self._last is not None and batch.before.step >= self._last:
                    break
                self._cut = batch.after
                counts.add("samples", batch.size)
                yield batch
        finally:
            reader.close()

    @abstractmethod
    def _batches(self, reader: ShardReader, seat: Seat) -> Iterator[Batch]:
        """The steps of a seat from the cut on, without end."""

    def state_dict(self) -> dict[str, Any]:
        """The cut behind the last step that this process handed out, and where the dataset began."""
        return {"first": self._first, **cut_state(self._cut)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on behind a state.

        Raises:
            InvalidInputError: ``input.invalid`` for a state of something else.
        """
        self._cut = cut_of(state)
        self._first = state["first"]

    def _seat(self) -> Seat:
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        return Seat(rank=self._rank, world_size=self._world_size, worker=worker, workers=workers)

    def _cache_of(self, seat: Seat) -> ShardCache:
        """The cache; in a worker, or where it is made here, it counts where the rank sees it."""
        cache = self._cache if isinstance(self._cache, ShardCache) else self._cache()
        if cache is not self._cache or get_worker_info() is not None:
            cache.counts = self.counts.of(seat.worker)
        return cache


class StepDataset(CutDataset[StepBatch]):
    """Steps of the run's global batch."""

    def _batches(self, reader: ShardReader, seat: Seat) -> Iterator[StepBatch]:
        source = self._source
        return batches(reader, source.order, self._cut, global_batch=source.global_batch, seat=seat, first=self._first)


class PackedDataset(CutDataset[PackedBatch]):
    """Steps whose samples share rows of fixed length.

    What a step consumes follows from the lengths of all samples before it, so every worker packs every step, and
    gathers only its own.

    Args:
        source: As for :class:`CutDataset`; its global batch counts for nothing.
        cache: As there.
        cut: As there.
        plan: The same on every rank and at every resume.
        options: As there.
    """

    def __init__(
        self,
        source: StepSource,
        cache: ShardCache | Callable[[], ShardCache],
        cut: Cut,
        plan: PackPlan,
        **options: Any,
    ) -> None:
        super().__init__(source, cache, cut, **options)
        self._plan = plan

    def _batches(self, reader: ShardReader, seat: Seat) -> Iterator[PackedBatch]:
        order = self._source.order
        return packed_batches(reader, order, self._cut, plan=self._plan, seat=seat, first=self._first)


class StepLoader(Generic[Batch]):
    """Batches of a rank in order, made by worker processes; its state holds at any number of workers and ranks.

    Args:
        make: A dataset that begins at a cut.
        cut: What was consumed before.
        workers: Processes that make batches ahead; 0 for none.
        ahead: Batches that each of them makes ahead.
        pin_memory: Hand tensors out in page-locked memory.
    """

    def __init__(
        self,
        make: Callable[[Cut], CutDataset[Batch]],
        cut: Cut,
        *,
        workers: int = 0,
        ahead: int = 2,
        pin_memory: bool = False,
    ) -> None:
        self._make = make
        self._options: dict[str, Any] = {"num_workers": workers, "pin_memory": pin_memory}
        if workers:
            self._options["prefetch_factor"] = ahead
        self.cut = cut

    def __iter__(self) -> Iterator[Batch]:
        steps = _Telling(self._make(self.cut))
        for batch in DataLoader(steps, batch_size=None, collate_fn=_as_it_is, **self._options):
            if isinstance(batch, ShardrelError):
                raise batch
            self.cut = batch.after
            yield batch

    def state_dict(self) -> dict[str, Any]:
        """The cut behind the last batch that was handed out; what was made ahead is not in it."""
        return cut_state(self.cut)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Begin at a state, of whatever number of workers and ranks.

        Raises:
            InvalidInputError: ``input.invalid`` for a state of something else.
        """
        self.cut = cut_of(state)


class _Telling(IterableDataset[Any]):
    """Hands an error of ours out as the last item: torch would make a RuntimeError without a code of it."""

    def __init__(self, steps: CutDataset[Any]) -> None:
        self._steps = steps

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._steps
        except ShardrelError as err:
            yield err


def cut_state(cut: Cut) -> dict[str, Any]:
    """A cut as plain values."""
    return {"step": cut.step, "epoch": cut.epoch, "cursor": cut.cursor, "ledger": cut.ledger}


def cut_of(state: dict[str, Any]) -> Cut:
    """The cut of plain values.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    try:
        return Cut(step=state["step"], epoch=state["epoch"], cursor=state["cursor"], ledger=state["ledger"])
    except (KeyError, TypeError) as err:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "this is no state of a step loader") from err


def _as_it_is(batch: Any) -> Any:
    return batch

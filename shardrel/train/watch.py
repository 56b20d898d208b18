"""What a rank shows of itself: ready or not, figures, events. Source: schemas/SPEC.md#watching."""

import functools
import logging
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TextIO, TypeVar

from shardrel.checkpoint.group import Group
from shardrel.clock import monotonic
from shardrel.data.counts import Counted
from shardrel.data.plan import MENTIONED
from shardrel.errors import ErrorCode, ShardrelError
from shardrel.records.release import Release
from shardrel.watch.endpoint import endpoint, metrics, readiness
from shardrel.watch.events import Events, Fact, about, plain
from shardrel.watch.exposition import exposition
from shardrel.watch.figures import Figures

_LOG = logging.getLogger("shardrel.train")

Batch = TypeVar("Batch")

_DIGESTS = (ErrorCode.STORAGE_DIGEST, ErrorCode.STORAGE_SIZE, ErrorCode.LOGICAL_DIGEST, ErrorCode.CACHE_CORRUPT)


_COUNTED: dict[str, Counted] = {
    "shardrel_cache_corrupt_total": "corrupt",
    "shardrel_fetched_bytes_total": "fetched",
    "shardrel_decoded_shards_total": "decoded",
    "shardrel_prepared_samples_total": "samples",
}


class Counter(Protocol):
    """What processes of this rank count: one of them, or the workers of a loader."""

    def get(self, name: Counted) -> int:
        """So far."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Counting:
    """A counter and what it had counted when it was first shown; who makes it count, where that is known."""

    counter: Counter
    before: Mapping[Counted, int]
    owner: "weakref.ref[object] | None"

    def since(self, name: Counted) -> int:
        return self.counter.get(name) - self.before[name]


class Watch:
    """Readiness, figures and events of one rank.

    Attributes:
        figures: Labelled with the root, which is empty until it is known.
        events: Written as JSON lines, or nowhere.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self.figures = Figures()
        self.events = Events(out)
        self._root = ""
        self._run = ""
        self._ready = False
        self._code: str | None = None
        self._forever: object = None
        self._counters: list[_Counting] = []
        self._ended: dict[Counted, int] = dict.fromkeys(_COUNTED.values(), 0)

    @property
    def root(self) -> str:
        """The root that this process is about."""
        return self._root

    def ready(self) -> tuple[bool, dict[str, object]]:
        """Whether the root is pinned and verified, and what is known."""
        facts = {"root": self._root or None, "run": self._run or None, "code": self._code}
        return self._ready, {name: fact for name, fact in facts.items() if fact is not None}

    def begins(self, group: Group, run: str) -> None:
        """A rank wants to join a run."""
        self._run, self._ready = run, False
        self.events.always(run=run, rank=group.rank, worldSize=group.world_size)
        self.events.say("joining")

    def resolved(self, release: Release, root: str, cache: Counter, members: int) -> None:
        """The root is known, and nothing of it is verified."""
        if root != self._root:
            self._counters, self._ended = [], dict.fromkeys(_COUNTED.values(), 0)
        self._root = root
        totals, figures = release.totals, self.figures
        figures.put("shardrel_ready", 0, root=root)
        figures.put("shardrel_release_shards", totals.shards, root=root)
        figures.put("shardrel_release_members", members, root=root)
        figures.put("shardrel_decompression_ratio", totals.logical_bytes / max(1, totals.stored_bytes), root=root)
        self.counts_of(cache)

    def counts_of(self, counter: Counter, owner: object | None = None) -> None:
        """Show what it counts from now on, added to what others count; asking again for the same changes nothing.

        Args:
            counter: Of processes of this rank.
            owner: What makes it count. Once that is gone the counter is let go of: numbers that processes share hold an
                open file.
        """
        if any(known.counter is counter for known in self._counters):
            return
        self._let_go()
        before = {name: counter.get(name) for name in _COUNTED.values()}
        self._counters.append(_Counting(counter, before, None if owner is None else weakref.ref(owner)))
        for metric, name in _COUNTED.items():
            value = functools.partial(_since, tuple(self._counters), name, self._ended[name])
            self.figures.ask(metric, value, root=self._root)

    def _let_go(self) -> None:
        kept, gone = list[_Counting](), list[_Counting]()
        for known in self._counters:
            (gone if known.owner is not None and known.owner() is None else kept).append(known)
        self._ended = {name: sum((known.since(name) for known in gone), self._ended[name]) for name in self._ended}
        self._counters = kept

    def pinned(self, rank: int, shards: int, members: int, seconds: float) -> None:
        """All ranks agree on the root, and this one verified its part of it."""
        root, figures = self._root, self.figures
        figures.put("shardrel_run_info", 1, root=root, run=self._run, rank=str(rank))
        figures.add("shardrel_verified_shards_total", shards, root=root)
        figures.add("shardrel_verified_members_total", members, root=root)
        figures.put("shardrel_permit_open", 1, root=root)
        figures.put("shardrel_pin_seconds", seconds, root=root)
        figures.put("shardrel_ready", 1, root=root)
        self._ready, self._code = True, None
        self.events.say("pinned", root=root, verifiedShards=shards, seconds=round(seconds, 3))

    def reads_all(self, splits: Sequence[str]) -> None:
        """The plan names no split, and there are several: an event, or where none is written a line of Python's logging."""
        names = [str(plain(name)) for name in splits[:MENTIONED]]
        self.events.say("reads-all-splits", root=self._root, splits=names)
        if not self.events.written:
            text = "run %s names no split and reads all %d of its release: %s; TrainPlan(split=...) reads one"
            _LOG.warning(text, self._run, len(splits), ", ".join(names))

    def failed(self, err: ShardrelError) -> None:
        """This rank's part in the run has ended."""
        self._ready, self._code = False, err.code.value
        root, figures = self._root, self.figures
        figures.put("shardrel_ready", 0, root=root)
        figures.add("shardrel_failures_total", root=root, code=err.code.value)
        if err.code in _DIGESTS:
            figures.add("shardrel_digest_failures_total", root=root, code=err.code.value)
        if err.code == ErrorCode.RUN_ROOT_DISAGREEMENT:
            figures.add("shardrel_root_mismatches_total", root=root)
        self.events.say("failed", root=root or None, **about(err))

    def ended(self, err: ShardrelError) -> None:
        """Something ended the job; what was noticed before is not counted twice."""
        if self._ready:
            self.failed(err)

    def say(self, event: str, **facts: Fact) -> None:
        """An event of the run."""
        self.events.say(event, root=self._root, **facts)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Count something of the run."""
        self.figures.add(name, amount, root=self._root, **labels)

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Notice what ends the block, and let it through."""
        try:
            yield
        except ShardrelError as err:
            self.failed(err)
            raise

    @contextmanager
    def served(self, host: str, port: int) -> Iterator[int]:
        """Answer ``/readyz`` and ``/metrics`` while the block runs; gives the port, which is a free one for 0.

        Raises:
            InvalidInputError: ``input.invalid`` when the address can't be had, or prometheus_client is missing.
        """
        pages = {"/readyz": readiness(self.ready), "/metrics": metrics(exposition(self.figures))}
        with endpoint(host, port, pages) as bound:
            yield bound

    def serve_on(self, host: str, port: int) -> None:
        """As ``served``, for the rest of the process's life."""
        forever = self.served(host, port)
        forever.__enter__()
        self._forever = forever  # its end would end the endpoint


class TimedGroup:
    """A group that counts how long this rank waits in barriers."""

    def __init__(self, group: Group, watch: Watch) -> None:
        self._group = group
        self._watch = watch

    @property
    def rank(self) -> int:
        """This process."""
        return self._group.rank

    @property
    def world_size(self) -> int:
        """Ranks of the job."""
        return self._group.world_size

    def exchange(self, message: bytes) -> list[bytes]:
        """As that of the group.

        Ranks: all.
        """
        began = monotonic()
        try:
            return self._group.exchange(message)
        finally:
            self._watch.count("shardrel_barriers_total")
            self._watch.count("shardrel_barrier_wait_seconds_total", monotonic() - began)


def watched(given: Iterable[Batch], watch: Watch, size: Callable[[Batch], int]) -> Iterator[Batch]:
    """The same batches, with what the training loop waited for each of them counted."""
    batches = iter(given)
    while True:
        elapsed = stopwatch()
        with watch.failures():
            batch = next(batches, None)
        if batch is None:
            return
        watch.count("shardrel_data_stall_seconds_total", elapsed())
        watch.count("shardrel_steps_total")
        watch.count("shardrel_samples_total", size(batch))
        yield batch


def _since(counters: Sequence[_Counting], name: Counted, ended: int) -> int:
    return sum((known.since(name) for known in counters), ended)


def stopwatch() -> Callable[[], float]:
    """Seconds since now."""
    began = monotonic()
    return lambda: monotonic() - began

"""Figures of a process, by name and labels. Source: schemas/SPEC.md#watching.

The numbers are plain; ``shardrel.watch.exposition`` writes them for Prometheus. Labels are digests, names and codes.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its name, kind, what it means, and its labels."""

    name: str
    kind: Literal["counter", "gauge"]
    meaning: str
    labels: tuple[str, ...] = ("root",)


JOB = (
    Metric("shardrel_run_info", "gauge", "1 for the run that this process is pinned to.", ("root", "run", "rank")),
    Metric("shardrel_ready", "gauge", "1 while this process has its root pinned and verified."),
    Metric("shardrel_release_shards", "gauge", "Shards of the release."),
    Metric("shardrel_release_members", "gauge", "Members of the run's split, as the root manifest declares them."),
    Metric("shardrel_verified_shards_total", "counter", "Shards that this process hashed before step 0."),
    Metric("shardrel_verified_members_total", "counter", "Members of the split in the shards that it hashed."),
    Metric(
        "shardrel_digest_failures_total", "counter", "Bytes that were not what their digest says.", ("root", "code")
    ),
    Metric("shardrel_cache_corrupt_total", "counter", "Cache entries that were set aside."),
    Metric("shardrel_root_mismatches_total", "counter", "Barriers that failed because ranks have other roots."),
    Metric("shardrel_barrier_wait_seconds_total", "counter", "Seconds in barriers, for other ranks."),
    Metric("shardrel_barriers_total", "counter", "Barriers that this process went through."),
    Metric("shardrel_pin_seconds", "gauge", "Seconds from joining to a pinned and verified root."),
    Metric("shardrel_fetched_bytes_total", "counter", "Bytes that came from the store, each hashed."),
    Metric("shardrel_decoded_shards_total", "counter", "Shards that were decoded into the host's cache."),
    Metric("shardrel_prepared_samples_total", "counter", "Samples that were gathered, those ahead of the loop too."),
    Metric("shardrel_decompression_ratio", "gauge", "Logical bytes of the release by its stored ones."),
    Metric("shardrel_steps_total", "counter", "Steps that were given to the training loop."),
    Metric("shardrel_samples_total", "counter", "Samples that were given to the training loop, on this rank."),
    Metric("shardrel_data_stall_seconds_total", "counter", "Seconds that the training loop waited for a batch."),
    Metric("shardrel_checkpoints_total", "counter", "Checkpoints that the gate admitted."),
    Metric("shardrel_checkpoints_refused_total", "counter", "Checkpoints that were not admitted.", ("root", "code")),
    Metric("shardrel_permit_open", "gauge", "1 while the run's permit was open when last asked."),
    Metric("shardrel_failures_total", "counter", "What ended this process's part in the run.", ("root", "code")),
)
"""What a rank of a training job shows."""

GATE = (
    Metric("shardrel_gate_ready", "gauge", "1 while the gate was read and its head's signature holds.", ("dataset",)),
    Metric("shardrel_gate_sequence", "gauge", "Number of the gate's last transition.", ("dataset",)),
    Metric("shardrel_gate_read_failures_total", "counter", "Reads of the gate that failed.", ("dataset", "code")),
    Metric("shardrel_fence_watermark", "gauge", "Entries that a fence has taken.", ("dataset", "fence")),
    Metric("shardrel_alias_generation", "gauge", "Generation of an alias.", ("root", "dataset", "alias")),
    Metric(
        "shardrel_run_permit_open", "gauge", "1 while the permit of an open run is open.", ("root", "dataset", "run")
    ),
    Metric("shardrel_run_step", "gauge", "Step of a run's last checkpoint.", ("root", "dataset", "run")),
    Metric("shardrel_missing_members", "gauge", "Members that the newest trusted report misses."),
    Metric("shardrel_extra_members", "gauge", "Members that no snapshot declares, in the newest trusted report."),
    Metric("shardrel_duplicate_members", "gauge", "Members that are there twice, in the newest trusted report."),
    Metric("shardrel_substituted_members", "gauge", "Members that are others than declared, in that report."),
    Metric(
        "shardrel_reported_digest_failures", "gauge", "Objects that are not what their digest says, in that report."
    ),
    Metric("shardrel_tombstone_hits", "gauge", "Members that the tombstones name, in that report."),
    Metric("shardrel_benchmark_hits", "gauge", "Members that the benchmark fence names, in that report."),
)
"""What ``shardrel serve`` shows of a gate."""

METRICS = {metric.name: metric for metric in (*JOB, *GATE)}

Labels = tuple[str, ...]


class Figures:
    """The numbers of one process; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[str, Labels], float] = {}
        self._asked: dict[tuple[str, Labels], Callable[[], float]] = {}

    def add(self, name: str, amount: float = 1, /, **labels: str) -> None:
        """Count something."""
        key = _key(name, labels)
        with self._lock:
            self._values[key] = self._values.get(key, 0) + amount

    def put(self, name: str, value: float, /, **labels: str) -> None:
        """Say what a gauge stands at."""
        with self._lock:
            self._values[_key(name, labels)] = value

    def ask(self, name: str, value: Callable[[], float], /, **labels: str) -> None:
        """Take a number from somewhere else, each time that the figures are read."""
        with self._lock:
            self._asked[_key(name, labels)] = value

    def replace(self, names: Iterable[str], fresh: "Figures") -> None:
        """Put other numbers in the place of all those of some metrics, at once: no reader sees some of both."""
        gone = frozenset(names)
        new = dict(fresh._all())
        with self._lock:
            kept = {key: value for key, value in self._values.items() if key[0] not in gone}
            self._values = {**kept, **new}

    def get(self, name: str, /, **labels: str) -> float:
        """One number; 0 where nothing was said of it."""
        return dict(self._all()).get(_key(name, labels), 0)

    def read(self) -> dict[str, dict[Labels, float]]:
        """All numbers, by metric and by the values of its labels."""
        found: dict[str, dict[Labels, float]] = {}
        for (name, labels), value in sorted(self._all()):
            found.setdefault(name, {})[labels] = value
        return found

    def _all(self) -> Iterator[tuple[tuple[str, Labels], float]]:
        with self._lock:
            values, asked = dict(self._values), dict(self._asked)
        yield from values.items()
        for key, value in asked.items():
            yield key, value()


def _key(name: str, labels: dict[str, str]) -> tuple[str, Labels]:
    return name, tuple(labels[label] for label in METRICS[name].labels)

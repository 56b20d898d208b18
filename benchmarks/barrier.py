"""Barrier and pin at 2, 4 and 8 ranks of one host, beside torch's own barrier over gloo in the same processes.

A barrier is one round of messages of which every rank has all; torch's barrier moves none and cannot say who is
missing. Pin: from the first message of ``join`` to a root that all ranks verified and agreed on.
"""

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import note
from shardrel.store.local import LocalStore
from tests.support.rank_processes import free_port, start_rank
from tests.support.training import training_world

WORLDS = (2, 4, 8)
_RANK = Path(__file__).parent / "barrier_rank.py"


def measure_barrier(*, quick: bool) -> Iterator[tuple[str, object]]:
    """All figures, under their keys in ``results.json``."""
    runs = 1 if quick else 3
    with tempfile.TemporaryDirectory(prefix="shardrel-bench-barrier-") as name:
        folder = Path(name)
        records, shards = (2_000, 8) if quick else (200_000, 64)
        world = training_world(LocalStore(str(folder / "store")), folder, records=records, shards=shards)
        found = {ranks: [_job(folder, ranks, turn) for turn in range(runs)] for ranks in WORLDS}
    figures: dict[str, Any] = {
        str(ranks): {key: round(statistics.median(one[key] for one in jobs), 6) for key in jobs[0]}
        for ranks, jobs in found.items()
    }
    first, last = figures[str(WORLDS[0])], figures[str(WORLDS[-1])]
    yield "barrier", {**figures, "releaseBytes": world.release.totals.stored_bytes, "shards": shards}
    for key in ("barrier_s", "pin_cold_s", "pin_warm_s"):
        yield f"barrier.growth.{key}", round(last[key] / first[key], 2)
    yield "barrier.ratio", round(last["barrier_s"] / last["gloo_s"], 2)
    note(f"barrier: {figures}")


def _job(folder: Path, world_size: int, turn: int) -> dict[str, float]:
    """The slowest rank of a job, by figure."""
    words = [folder / "store", folder / f"cache-{world_size}-{turn}"]
    port = free_port()
    ranks = [start_rank(_RANK, rank, world_size, words, port=port) for rank in range(world_size)]
    ended = [one.end(600) for one in ranks]
    for status, _, err in ended:
        if status:
            raise RuntimeError(err)
    said = [events[-1] for _, events, _ in ended]
    return {key: max(one[key] for one in said) for key in said[0] if key != "event"}

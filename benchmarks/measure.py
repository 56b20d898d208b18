"""Interleaved pairs: both sides in one run, warm, same threads; the median ratio is what counts."""

import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Ratio:
    """Seconds of both sides and the ratio of each pair."""

    ours: list[float]
    baseline: list[float]

    def summary(self) -> dict[str, Any]:
        """Median, spread and counts, as ``results.json`` holds them."""
        ratios = [a / b for a, b in zip(self.ours, self.baseline, strict=True)]
        return {
            "ratio": round(statistics.median(ratios), 3),
            "min": round(min(ratios), 3),
            "max": round(max(ratios), 3),
            "pairs": len(ratios),
            "ours_s": round(statistics.median(self.ours), 3),
            "baseline_s": round(statistics.median(self.baseline), 3),
        }


def pairs(
    ours: Callable[[], object],
    baseline: Callable[[], object],
    count: int = 7,
    ready: Callable[[], object] = lambda: None,
) -> Ratio:
    """One warm-up of each, then ``count`` pairs in turn (at least 3 where a run takes over a minute).

    Args:
        ours, baseline: The two sides.
        count: Of pairs.
        ready: Called before every run of either, and not timed.
    """
    first = _seconds(ours, ready)
    _seconds(baseline, ready)
    if first > 60:
        count = 3
    times_a: list[float] = []
    times_b: list[float] = []
    for index in range(count):
        # The order alternates, so that a drift of the machine's speed hits both sides alike.
        for side in (0, 1) if index % 2 == 0 else (1, 0):
            (times_a if side == 0 else times_b).append(_seconds(ours if side == 0 else baseline, ready))
    return Ratio(times_a, times_b)


def note(text: str) -> None:
    """Progress for people, on stderr."""
    print(text, file=sys.stderr, flush=True)


def machine() -> dict[str, object]:
    """Facts of this machine that a reader of the figures needs."""
    model = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        model = "unknown"
    return {"cpus": os.cpu_count() or 0, "model": model, "python": sys.version.split()[0]}


def _seconds(run: Callable[[], object], ready: Callable[[], object]) -> float:
    ready()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start

"""The whole crash drill of two barriers on the real Fashion-MNIST, and the price of bits that no world size changes.

A drill is the command as users call it; seconds of the processor are those of all its processes.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import note
from tests.support.fashion_mnist import fashion_mnist
from tests.support.rank_processes import job

BARRIERS = ("commit-after-file-fsync", "commit-after-rename")
_RANK = Path(__file__).parent / "lab_rank.py"
_RANKS = 4
_MAIN = "from shardrel.cli.main import run; run()"


def measure_lab(*, quick: bool) -> Iterator[tuple[str, object]]:
    """All figures, under their keys in ``results.json``."""
    data = fashion_mnist()
    wall = 0.0
    with tempfile.TemporaryDirectory(prefix="shardrel-bench-lab-") as name:
        folder = Path(name)
        for barrier in BARRIERS[: 1 if quick else 2]:
            drill = _command(folder, "drill", "crash", "--barrier", barrier, "--data", str(data), "--out", barrier)
            verify = _command(folder, "verify-bundle", barrier)
            wall += drill["wall_s"]
            yield f"lab.{barrier}", {"drill": drill, "verify": verify}
            note(f"lab: {barrier}: {drill}, verify-bundle: {verify}")
    if not quick:
        yield "lab.both_wall_s", round(wall, 1)
    yield from _reduction(5 if quick else 40)


def _command(folder: Path, *words: str) -> dict[str, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    line = [sys.executable, "-c", _MAIN, *words, "--json", "--keys", "keys"]
    done = subprocess.run(line, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    answer: dict[str, Any] = json.loads(done.stdout)
    if done.returncode:
        raise RuntimeError(answer)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": round(wall, 1), "cpu_s": round(spent, 1)}


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}


def _reduction(steps: int) -> Iterator[tuple[str, object]]:
    """A step with groups in a fixed order, over one with each rank's part at once and a plain sum, on the same ranks."""
    with job(_RANK, _RANKS, [steps]) as ranks:
        ended = [one.end(600) for one in ranks]
    for status, _, err in ended:
        if status:
            raise RuntimeError(err)
    said = [events[-1] for _, events, _ in ended]
    wall, spent = (_ratios(said, clock) for clock in ("wall", "cpu"))
    yield (
        "lab.reduction",
        {
            "ranks": _RANKS,
            "bytes_ratio": said[0]["bytes_ratio"],
            "wall_ratio": round(statistics.median(wall), 2),
            "cpu_ratio": round(statistics.median(spent), 2),
        },
    )
    note(
        f"lab: reduction: {statistics.median(wall):.2f} times the wall, {statistics.median(spent):.2f} times the processor"
    )


def _ratios(said: Sequence[dict[str, Any]], clock: str) -> list[float]:
    """Of each pair of steps, summed over the ranks."""
    sides = [
        [sum(one[clock][side][turn] for one in said) for turn in range(len(said[0][clock][side]))] for side in (0, 1)
    ]
    return [ours / plain for ours, plain in zip(*sides, strict=True)]

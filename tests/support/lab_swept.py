"""Runs ``tests.support.lab_sweep`` in a process of its own, which forks."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.torchrun import ROOT


def swept(folder: Path, stores: str, *words: object) -> tuple[int, list[dict[str, Any]]]:
    """Number of operations or requests of a transaction, and what came of each point."""
    line = [sys.executable, "-m", "tests.support.lab_sweep", str(folder), stores, *(str(word) for word in words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    first, *points = (json.loads(line) for line in done.stdout.splitlines())
    return first["count"], points


def check_points(points: list[dict[str, Any]], ranks: tuple[int, int]) -> None:
    """Every one was killed and recovered from, and all came to one state and one ledger a step."""
    assert [one for one in points if one["problems"] or one["status"] != -9] == []
    for one in points:
        end = 3 if one["installed"] else 2
        assert one["end"] == [end, end, ranks[1]], one
        assert (one["selected"], one["helped"]) == (int(one["installed"]), one["installed"] and not one["admitted"])
    assert len({(one["end"][1], one["state"], one["ledger"]) for one in points}) == 2

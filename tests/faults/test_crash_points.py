"""Every command is killed before and after each of its store operations, and a plain re-run finishes it.

What a re-run comes to is compared with what the command comes to undisturbed: the gate's body, its history
with every link and signature checked, attestations, run records, and that no object was written again.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.crash_story import STORY

ROOT = Path(__file__).resolve().parents[2]
# No library may start threads before the driver forks.
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
KILLED = [step.name for step in STORY if step.crashes]


def crash(folder: Path, every: int, offset: int, *steps: str, forget: bool = False) -> list[dict[str, Any]]:
    driver = [sys.executable, "-m", "tests.support.crash_points"]
    command = [*driver, str(folder), str(every), str(offset), "forget" if forget else "keep", *steps]
    environment = {**os.environ, **ENVIRONMENT}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(results: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert not [wrong for result in results for wrong in result["wrong"]]
    tried = {result["step"]: result["tried"] for result in results if result["tried"]}
    points = sum(result["points"] for result in results)
    with capsys.disabled():
        print(f"\n  crash points: {sum(tried.values())} of {points} tried; {tried}")


def test_some_points_of_every_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = crash(tmp_path / "story", 27, 11)
    check(results, capsys)
    assert sum(result["tried"] for result in results) >= len(KILLED)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [KILLED[0::2], KILLED[1::2]], ids=["even", "odd"])
def test_every_point_of_every_command(tmp_path: Path, steps: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    results = crash(tmp_path / "story", 1, 0, *steps)
    check(results, capsys)
    assert all(result["tried"] == result["points"] > 0 for result in results if result["step"] in steps)


def test_a_rerun_that_forgot_its_operation_is_noticed(tmp_path: Path) -> None:
    """Killed after the swap, and without its operation id, the start of a run starts another one."""
    results = crash(tmp_path / "story", 4, 1, "run-start-unnamed", forget=True)
    [result] = [result for result in results if result["tried"]]
    assert result["step"] == "run-start-unnamed"
    assert 0 < len(result["wrong"]) < result["tried"]

"""``make demo`` goes as told, on whatever Python library this machine has."""

import subprocess
import sys

import pytest

from examples.demo.narrator import ROOT, environment


@pytest.mark.slow
def test_the_demo_goes_as_told() -> None:
    command = [sys.executable, "-m", "examples.demo.story"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False, timeout=1200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All as told" in done.stdout

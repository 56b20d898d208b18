"""Run a few lines in a process of their own and see how much memory they took."""

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_REPORT = "; import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"


def peak_memory(code: str, *arguments: object) -> int:
    """Peak resident bytes of a fresh interpreter that runs ``code`` with the arguments formatted into it."""
    done = subprocess.run(
        [sys.executable, "-c", code.format(*arguments) + _REPORT],
        check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )  # fmt: skip
    return int(done.stdout.split()[-1]) * 1024

"""Run a few lines in a process of their own and see how much memory they took."""

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_REPORT = "; from tests.support.process import own_peak; print(own_peak())"


def peak_memory(code: str, *arguments: object) -> int:
    """Peak resident bytes of a fresh interpreter that runs ``code`` with the arguments formatted into it."""
    done = subprocess.run(
        [sys.executable, "-c", code.format(*arguments) + _REPORT],
        check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )  # fmt: skip
    return int(done.stdout.split()[-1])


def own_peak() -> int:
    """Peak resident bytes of this program; ``ru_maxrss`` begins with that of the process which started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))

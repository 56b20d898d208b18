"""Real jobs: torchrun, gloo on the loop-back interface, one thread a rank."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Job:
    """How a job ended and what its ranks printed."""

    returncode: int
    events: list[dict[str, Any]]
    stderr: str

    def of(self, event: str) -> list[dict[str, Any]]:
        """The events of one kind."""
        return [one for one in self.events if one["event"] == event]


def torchrun(script: Path, ranks: int, arguments: list[str], *, timeout: float = 90.0) -> Job:
    """Start a script on a number of ranks, or plainly for none, and wait for its end."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1", f"--nproc-per-node={ranks}"]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "default",
    }
    done = subprocess.run(
        [sys.executable, *(launcher if ranks else []), str(script), *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return Job(returncode=done.returncode, events=[json.loads(line) for line in lines], stderr=done.stderr)

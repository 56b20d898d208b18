"""Real jobs: torchrun, gloo on the loop-back interface, one thread a rank."""

import json
import os
import subprocess
import sys
import tomllib
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
    setting = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "default",
    }
    done = subprocess.run(
        [sys.executable, *(launcher if ranks else []), str(script), *arguments],
        cwd=ROOT,
        env=setting,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return Job(returncode=done.returncode, events=[json.loads(line) for line in lines], stderr=done.stderr)


def environment(folder: Path) -> dict[str, str]:
    """What an agent finds: one thread a rank, gloo on the loop-back interface, the package as if it were installed."""
    path = f"{ROOT}{os.pathsep}{_installed(folder)}"
    return {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": path}


def _installed(folder: Path) -> Path:
    """A folder in which the package has the entry points of pyproject.toml."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    about = folder / "installed" / "shardrel-0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shardrel\nVersion: 0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {what}\n" for name, what in of.items()) for group, of in groups.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    return about.parent

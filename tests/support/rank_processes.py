"""Ranks of a job as bare processes, as a scheduler without an agent starts them: nobody ends the others."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.torchrun import ROOT


@dataclass
class RankProcess:
    """One rank, running."""

    rank: int
    process: "subprocess.Popen[str]"

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.process.pid, number)

    def line(self, event: str) -> dict[str, Any]:
        """Wait for its next event of a kind; fails when it ends without one."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            if text.startswith("{") and (found := json.loads(text))["event"] == event:
                return dict(found)
        raise AssertionError(f"rank {self.rank} ended without {event}: {self.process.wait()}")

    def end(self, timeout: float = 60) -> tuple[int, list[dict[str, Any]], str]:
        """Wait for its end: status, events that nobody has read, and stderr."""
        out, err = self.process.communicate(timeout=timeout)
        events = [json.loads(text) for text in out.splitlines() if text.startswith("{")]
        return self.process.returncode, events, err


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_rank(
    script: Path,
    rank: int,
    world_size: int,
    arguments: Sequence[object],
    *,
    port: int,
    host: str = "127.0.0.1",
    interface: str = "lo",
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> RankProcess:
    """Start one rank of a job that meets at a port.

    Args:
        script: What it runs.
        rank: Its number.
        world_size: Of how many.
        arguments: Of the script.
        port: Where rank 0 hosts the rendezvous store.
        host: Where rank 0 is.
        interface: That gloo binds to.
        prefix: Words before the interpreter, such as those that enter a network namespace.
        environment: What it finds besides.
    """
    setting = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": interface,
        "PYTHONPATH": str(ROOT),
        **(environment or {}),
    }
    words = [*prefix, sys.executable, str(script), *[str(word) for word in arguments]]
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, cwd=ROOT, env=setting, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    return RankProcess(rank, process)


@contextmanager
def job(script: Path, world_size: int, arguments: Sequence[object], **how: Any) -> Iterator[list[RankProcess]]:
    """All ranks of a job; whoever still runs at the end of the block is killed, stopped ones too."""
    port = free_port()
    ranks = [start_rank(script, rank, world_size, arguments, port=port, **how) for rank in range(world_size)]
    try:
        yield ranks
    finally:
        for one in ranks:
            if one.process.poll() is None:
                one.signal(signal.SIGKILL)
            one.process.communicate()

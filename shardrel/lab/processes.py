"""Isolated processes of a drill, started, killed where asked, and waited for. Source: schemas/SPEC.md#crash-lab."""

import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from shardrel.canonical import json
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.lab.barrier import Barrier, Event
from shardrel.lab.tasks import Answer, Happened, Publish, Task, Train

_CHILD = [sys.executable, "-m", "shardrel.lab.child"]
_PACKAGES = Path(__file__).resolve().parents[2]
_PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A process that was waited for; its status is minus the signal that ended it."""

    status: int
    answer: Answer | None


class Processes(Protocol):
    """What does the tasks of a drill."""

    def run(self, name: str, task: Task) -> Any:
        """Do one task; its answer.

        Raises:
            RunFailedError: ``run.rank-failed`` where it failed.
        """
        ...

    def group(self, name: str, task: Train, world_size: int) -> list[Ended]:
        """Run a group of workers to the end of the last one, in order of their ranks.

        Raises:
            RunFailedError: ``run.rank-failed``; all have been waited for then too.
        """
        ...

    def kill_at(self, name: str, task: Publish, barrier: Barrier) -> tuple[list[Event], Ended]:
        """Acknowledge one event after the other up to the barrier; that one is answered with SIGKILL.

        Raises:
            RunFailedError: ``run.rank-failed`` where the process ended before it came there.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolatedProcesses:
    """Fresh interpreters.

    Attributes:
        environment: What they find; the caller's own.
        logs: Folder of what they say on stderr.
    """

    environment: Mapping[str, str]
    logs: Path

    def run(self, name: str, task: Task) -> Any:
        """One process."""
        return _answers([self._finish(self._start(name, task, {}))], name)[0]

    def group(self, name: str, task: Train, world_size: int) -> list[Ended]:
        """One process a rank, at once."""
        port = str(_free_port())
        seats = [
            {"RANK": str(rank), "WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            for rank in range(world_size)
        ]
        started = [self._start(f"{name}-{rank}", task, seat) for rank, seat in enumerate(seats)]
        ended = [self._finish(one) for one in started]
        _answers(ended, name)
        return ended

    def kill_at(self, name: str, task: Publish, barrier: Barrier) -> tuple[list[Event], Ended]:
        """A process that waits at each event for a byte on its stdin."""
        process = self._start(name, task, {})
        events: list[Event] = []
        try:
            while not (events and barrier.is_at(events)):
                if events:
                    _write(process, b"+")
                events.append(self._next_event(process, len(events)))
            process.send_signal(signal.SIGKILL)
        except BaseException:
            process.kill()
            raise
        finally:
            status = process.wait()
            _close(process)
        return events, Ended(status=status, answer=None)

    def _start(self, name: str, task: Task, seat: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        environment = {
            **self.environment,
            **seat,
            "PYTHONPATH": str(_PACKAGES),
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
        }
        with (self.logs / f"{name}.stderr").open("wb") as log:
            process = subprocess.Popen(
                _CHILD, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        _write(process, json.encode(task) + b"\n")
        return process

    def _next_event(self, process: "subprocess.Popen[bytes]", number: int) -> Event:
        assert process.stdout is not None
        answer = _decode(process.stdout.readline())
        if not isinstance(answer, Happened):
            message = f"the publisher never came to the barrier; it did {number} things"
            raise RunFailedError(ErrorCode.RUN_RANK_FAILED, message, events=number)
        return answer.event

    def _finish(self, process: "subprocess.Popen[bytes]") -> Ended:
        try:
            out, _ = process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return Ended(status=process.returncode, answer=None)
        return Ended(status=process.returncode, answer=_decode(out.splitlines()[-1] if out else b""))


def _answers(ended: list[Ended], name: str) -> list[Answer]:
    answers = [one.answer for one in ended if one.status == 0 and one.answer is not None]
    if len(answers) < len(ended):
        ranks = [str(rank) for rank, one in enumerate(ended) if one.status != 0 or one.answer is None]
        raise RunFailedError(ErrorCode.RUN_RANK_FAILED, "a process of the drill failed", name=name, ranks=ranks)
    return answers


def _decode(line: bytes) -> Answer | None:
    return json.decode(line.rstrip(b"\n"), Answer) if line else None  # type: ignore[arg-type]


def _write(process: "subprocess.Popen[bytes]", data: bytes) -> None:
    """Whoever is gone by then is noticed when its answer is read."""
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.write(data)
        process.stdin.flush()


def _close(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # a byte that nobody read
                pipe.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""Isolated processes of a drill, started, killed where asked, and waited for. Source: schemas/SPEC.md#crash-lab.

No wait is without an end: whoever is not done in time is killed, and its drill fails by a code.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from shardrel.canonical import json
from shardrel.errors import ErrorCode, FormatError, RunFailedError
from shardrel.lab.barrier import Barrier, Event
from shardrel.lab.tasks import Answer, Group, Grouped, Happened, Publish, Task, Train

PATIENCE_S = 300.0
"""For the whole life of a process; a group of workers lives at once."""

_CHILD = (sys.executable, "-m", "shardrel.lab.child")
_PACKAGES = Path(__file__).resolve().parents[2]
_REAPING_S = 30.0
_LONGEST_EVENT = 65536


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
            RunFailedError: ``run.rank-failed`` where it failed, or was not done in time.
        """
        ...

    def group(self, name: str, task: Train, world_size: int, then: Publish | None) -> list[Ended]:
        """Run a group of workers to the end of the last one, in order of their ranks, and commit what they left.

        Raises:
            RunFailedError: ``run.rank-failed``; all have been waited for then too.
        """
        ...

    def kill_at(self, name: str, task: Publish, barrier: Barrier) -> tuple[list[Event], Ended]:
        """Acknowledge one event after the other up to the barrier; that one is answered with SIGKILL.

        Raises:
            RunFailedError: ``run.rank-failed`` where the process ended before it came there, or did not come in time.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolatedProcesses:
    """Fresh interpreters; the ranks of a group are forks of one.

    Attributes:
        environment: What they find; the caller's own.
        logs: Folder of what they say on stderr.
        patience_s: For the whole life of each. A little earlier the program itself says where it hangs, and ends.
        program: What is run, with its own patience in seconds as last word.
    """

    environment: Mapping[str, str]
    logs: Path
    patience_s: float = PATIENCE_S
    program: Sequence[str] = _CHILD

    def run(self, name: str, task: Task) -> Any:
        """One process."""
        [answer] = _answers([self._done(name, task, {})], name)
        return answer

    def group(self, name: str, task: Train, world_size: int, then: Publish | None) -> list[Ended]:
        """A leader, which starts one process a rank, waits for it, and commits."""
        group = Group(name=name, train=task, world_size=world_size, logs=str(self.logs), then=then)
        with _reserved_port() as port:
            leader = self._done(name, group, _meeting(world_size, port))
        if not isinstance(leader.answer, Grouped):
            raise _failed(name, [leader])
        ended = [Ended(status=one.status, answer=one.answer) for one in leader.answer.ranks]
        _answers(ended, name)
        return ended

    def kill_at(self, name: str, task: Publish, barrier: Barrier) -> tuple[list[Event], Ended]:
        """A process that waits at each event for a byte on its stdin."""
        events: list[Event] = []
        with self._started(name, task, {}) as process:
            while not (events and barrier.is_at(events)):
                if events:
                    _write(process, b"+")
                events.append(_next_event(process, len(events)))
            process.send_signal(signal.SIGKILL)
            status = _reaped(process)
        return events, Ended(status=status, answer=None)

    def _done(self, name: str, task: Task, more: Mapping[str, str]) -> Ended:
        with self._started(name, task, more) as process:
            return _finish(process)

    @contextmanager
    def _started(self, name: str, task: Task, more: Mapping[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
        """A process that is killed when its time is over, and gone afterwards with all that it started."""
        process = self._start(name, more)
        timer = threading.Timer(self.patience_s, _kill, [process])
        timer.daemon = True
        try:
            timer.start()
            _write(process, json.encode(task) + b"\n")
            yield process
        finally:
            timer.cancel()
            _kill(process)
            _reaped(process)
            _close(process)

    def _start(self, log: str, more: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        environment = {
            **self.environment,
            **more,
            "PYTHONPATH": str(_PACKAGES),
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
        }
        with (self.logs / f"{log}.stderr").open("wb") as stderr:
            return subprocess.Popen(
                [*self.program, str(0.95 * self.patience_s)],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )


def _meeting(world_size: int, port: int) -> Mapping[str, str]:
    return {"WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def _close(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # a byte that nobody read
                pipe.close()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """It and what it started, which have a session of their own. Until it is waited for, nobody else has its number."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):  # what is there has ended
            os.killpg(process.pid, signal.SIGKILL)


def _reaped(process: "subprocess.Popen[bytes]") -> int:
    """The status of a process that was killed, or has closed its stdout."""
    try:
        return process.wait(_REAPING_S)
    except subprocess.TimeoutExpired as err:
        raise RunFailedError(ErrorCode.RUN_RANK_FAILED, "a process of the drill cannot be ended") from err


def _finish(process: "subprocess.Popen[bytes]") -> Ended:
    """Read until it ends; a timer sees to it that it does. Who has closed its stdout has nothing more to do."""
    assert process.stdout is not None
    out = process.stdout.read()
    _kill(process)
    return Ended(status=_reaped(process), answer=_decode(out.splitlines()[-1] if out else b""))


def _next_event(process: "subprocess.Popen[bytes]", number: int) -> Event:
    assert process.stdout is not None
    answer = _decode(process.stdout.readline(_LONGEST_EVENT))
    if not isinstance(answer, Happened):
        message = f"the publisher never came to the barrier; it did {number} things"
        raise RunFailedError(ErrorCode.RUN_RANK_FAILED, message, events=number)
    return answer.event


def _answers(ended: list[Ended], name: str) -> list[Answer]:
    answers = [one.answer for one in ended if one.status == 0 and one.answer is not None]
    if len(answers) < len(ended):
        raise _failed(name, ended)
    return answers


def _failed(name: str, ended: Sequence[Ended]) -> RunFailedError:
    failed = [(rank, one.status) for rank, one in enumerate(ended) if one.status != 0 or one.answer is None]
    return RunFailedError(
        ErrorCode.RUN_RANK_FAILED,
        "a process of the drill failed, or was not done in time",
        name=name,
        ranks=[str(rank) for rank, _ in failed],
        statuses=[str(status) for _, status in failed],
    )


def _decode(line: bytes) -> Answer | None:
    """None for what is no answer: whoever said that did not do its task."""
    try:
        return json.decode(line.rstrip(b"\n"), Answer) if line else None  # type: ignore[arg-type]
    except FormatError:
        return None


def _write(process: "subprocess.Popen[bytes]", data: bytes) -> None:
    """Whoever is gone by then is noticed when its answer is read."""
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.write(data)
        process.stdin.flush()


@contextmanager
def _reserved_port() -> Iterator[int]:
    """A port that the system gives to nobody while rank 0 comes to listen at it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])

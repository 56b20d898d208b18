"""Isolated processes of a drill, started, killed where asked, and waited for. Source: schemas/SPEC.md#crash-lab.

No wait is without an end: whoever is not done in time is killed, and its drill fails by a code.
"""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from shardrel.canonical import json
from shardrel.errors import ErrorCode, FormatError, RunFailedError
from shardrel.lab.barrier import Barrier, Event
from shardrel.lab.tasks import Answer, Happened, Publish, Task, Train

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

    def group(self, name: str, task: Train, world_size: int) -> list[Ended]:
        """Run a group of workers to the end of the last one, in order of their ranks.

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
    """Fresh interpreters.

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
        [answer] = _answers(self._all(name, [(name, {})], task), name)
        return answer

    def group(self, name: str, task: Train, world_size: int) -> list[Ended]:
        """One process a rank, at once."""
        with _reserved_port() as port:
            seats = [_seat(rank, world_size, port) for rank in range(world_size)]
            ended = self._all(name, [(f"{name}-{rank}", seat) for rank, seat in enumerate(seats)], task)
        _answers(ended, name)
        return ended

    def kill_at(self, name: str, task: Publish, barrier: Barrier) -> tuple[list[Event], Ended]:
        """A process that waits at each event for a byte on its stdin."""
        events: list[Event] = []
        with self._started([(name, {})], task) as [process]:
            while not (events and barrier.is_at(events)):
                if events:
                    _write(process, b"+")
                events.append(_next_event(process, len(events)))
            process.send_signal(signal.SIGKILL)
            status = _reaped(process)
        return events, Ended(status=status, answer=None)

    def _all(self, name: str, seats: Sequence[tuple[str, Mapping[str, str]]], task: Task) -> list[Ended]:
        with self._started(seats, task) as started:
            return [_finish(one) for one in started]

    @contextmanager
    def _started(
        self, seats: Sequence[tuple[str, Mapping[str, str]]], task: Task
    ) -> "Iterator[list[subprocess.Popen[bytes]]]":
        """Processes that are killed when their time is over, and are all gone afterwards, however that comes."""
        with ExitStack() as stack:
            started = [stack.enter_context(_gone_at_the_end(self._start(log, seat))) for log, seat in seats]
            timer = threading.Timer(self.patience_s, _kill, [started])
            timer.daemon = True
            timer.start()
            stack.callback(timer.cancel)
            for one in started:
                _write(one, json.encode(task) + b"\n")
            yield started

    def _start(self, log: str, seat: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        environment = {
            **self.environment,
            **seat,
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
            )


def _seat(rank: int, world_size: int, port: int) -> Mapping[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


@contextmanager
def _gone_at_the_end(process: "subprocess.Popen[bytes]") -> "Iterator[subprocess.Popen[bytes]]":
    try:
        yield process
    finally:
        _kill([process])
        _reaped(process)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # a byte that nobody read
                    pipe.close()


def _kill(processes: "Sequence[subprocess.Popen[bytes]]") -> None:
    """Does nothing to those that were waited for."""
    for one in processes:
        one.kill()


def _reaped(process: "subprocess.Popen[bytes]") -> int:
    """The status of a process that was killed, or has closed its stdout."""
    try:
        return process.wait(_REAPING_S)
    except subprocess.TimeoutExpired as err:
        raise RunFailedError(ErrorCode.RUN_RANK_FAILED, "a process of the drill cannot be ended") from err


def _finish(process: "subprocess.Popen[bytes]") -> Ended:
    """Read until it ends; a timer sees to it that it does."""
    out, _ = process.communicate()
    return Ended(status=process.returncode, answer=_decode(out.splitlines()[-1] if out else b""))


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
        failed = [(rank, one.status) for rank, one in enumerate(ended) if one.status != 0 or one.answer is None]
        raise RunFailedError(
            ErrorCode.RUN_RANK_FAILED,
            "a process of the drill failed, or was not done in time",
            name=name,
            ranks=[str(rank) for rank, _ in failed],
            statuses=[str(status) for _, status in failed],
        )
    return answers


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

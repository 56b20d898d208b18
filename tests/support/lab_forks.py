"""Processes of a drill as forks of one that has everything loaded and no thread: as real, and much faster to start."""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import torch

from shardrel.canonical import json as canonical
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.lab import child, stores
from shardrel.lab.barrier import Barrier, Event
from shardrel.lab.processes import Ended
from shardrel.lab.tasks import Answer, Happened, Publish, Task, Train
from tests.support.rank_processes import free_port


@dataclass
class Fork:
    """One that runs; it reads its task and acknowledgements, and writes answers."""

    pid: int
    into: BinaryIO
    out: BinaryIO

    def end(self) -> int:
        """Wait for it; its status, or minus the signal."""
        self.out.close()
        with suppress(BrokenPipeError):
            self.into.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Forks:
    """Does every task in a fork of this process, as ``IsolatedProcesses`` does it in a fresh interpreter."""

    logs: Path

    def run(self, name: str, task: Task) -> Any:
        """One fork."""
        return self._all([(name, {})], task)[0].answer

    def group(self, name: str, task: Train, world_size: int, then: Publish | None) -> list[Ended]:
        """A fork a rank, at once."""
        port = str(free_port())
        seats = [
            {"RANK": str(rank), "WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            for rank in range(world_size)
        ]
        ended = self._all([(f"{name}-{rank}", seat) for rank, seat in enumerate(seats)], task)
        if then is not None:
            self.run(f"publish-{name}", then)
        return ended

    def kill_at(self, name: str, task: Publish, barrier: Barrier) -> tuple[list[Event], Ended]:
        """SIGKILL in place of the last acknowledgement."""
        fork, events = self._start(name, task, {}), list[Event]()
        try:
            while not (events and barrier.is_at(events)):
                if events:
                    fork.into.write(b"+")
                    fork.into.flush()
                events.append(_event(fork.out.readline(), len(events)))
        finally:
            os.kill(fork.pid, signal.SIGKILL)
            status = fork.end()
        return events, Ended(status=status, answer=None)

    def _all(self, seats: list[tuple[str, Mapping[str, str]]], task: Task) -> list[Ended]:
        started = [self._start(name, task, seat) for name, seat in seats]
        answers = [_answer(one.out.read()) for one in started]
        ended = [Ended(status=one.end(), answer=answer) for one, answer in zip(started, answers, strict=True)]
        bad = [name for (name, _), one in zip(seats, ended, strict=True) if one.status or one.answer is None]
        if bad:
            log = (self.logs / f"{bad[0]}.stderr").read_text()
            raise RunFailedError(ErrorCode.RUN_RANK_FAILED, f"a fork failed: {log[-2000:]}", name=bad[0])
        return ended

    def _start(self, name: str, task: Task, seat: Mapping[str, str]) -> Fork:
        reads, into = os.pipe()
        out, writes = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(into)
            os.close(out)
            _become(reads, writes, self.logs / f"{name}.stderr", seat)
        os.close(reads)
        os.close(writes)
        fork = Fork(pid, os.fdopen(into, "wb"), os.fdopen(out, "rb"))
        fork.into.write(canonical.encode(task) + b"\n")
        fork.into.flush()
        return fork


def in_fork(action: Callable[[], Any]) -> Any:
    """What an action gives, as JSON, with its threads in a process of their own."""
    out, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        _leave_after(lambda: os.write(writes, json.dumps(action()).encode()))
    os.close(writes)
    with os.fdopen(out, "rb") as file:
        said = file.read()
    if os.waitpid(pid, 0)[1]:
        raise AssertionError("a fork failed")
    return json.loads(said)


def _become(reads: int, writes: int, log: Path, seat: Mapping[str, str]) -> NoReturn:
    os.dup2(reads, 0)
    os.dup2(writes, 1)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    os.environ.update({**seat, "GLOO_SOCKET_IFNAME": "lo"})
    sys.argv = sys.argv[:1]
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    torch.set_num_threads(1)
    stores._on_a_server.cache_clear()  # its connections are the parent's
    _leave_after(child.main)


def _leave_after(action: Callable[[], object]) -> NoReturn:
    status = 99
    try:
        action()
        status = 0
    except BaseException:  # noqa: BLE001 (its end is the end of the process, which is what the parent looks at)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _answer(said: bytes) -> Answer | None:
    lines = said.splitlines()
    return canonical.decode(lines[-1], Answer) if lines else None  # type: ignore[arg-type]


def _event(line: bytes, number: int) -> Event:
    answer = _answer(line)
    if not isinstance(answer, Happened):
        raise RunFailedError(ErrorCode.RUN_RANK_FAILED, "the publisher never came to the barrier", events=number)
    return answer.event

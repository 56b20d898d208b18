"""Racers: threads of this process and of others that all write one key at the same moment.

A server that checks and then writes without a lock shows it only when several ask at once, and a lock that
holds among threads may not hold among processes. Source: schemas/SPEC.md#store
"""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Barrier
from typing import Any, Literal

import msgspec

from shardrel.errors import ErrorCode, UnavailableError
from shardrel.store.port import Addressed, ObjectKey, Store, Token, Written

_START = "import sys; sys.path[:] = sys.argv[1:]; from shardrel.store.racer import main; main()"
_PATIENCE = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """What one racer's write came to.

    Attributes:
        outcome: ``won``, ``lost``, or ``unclear``.
        version: Of what a winner wrote.
    """

    data: bytes
    outcome: Literal["won", "lost", "unclear"]
    version: str | None


class Racers:
    """Threads of this process, and the processes that ``racers`` started."""

    def __init__(self, threads: int, processes: "list[subprocess.Popen[str]]") -> None:
        self._threads = threads
        self._processes = processes

    @property
    def count(self) -> int:
        """How many write at once."""
        return self._threads * (1 + len(self._processes))

    def race(
        self, store: Store, key: ObjectKey, operation: Literal["create", "swap"], expected: Token | None
    ) -> list[Raced]:
        """Let all write at once, each its own bytes.

        Raises:
            UnavailableError: The store does not answer, or a process of ours died.
        """
        bodies = [f"racer {number}" for number in range(self.count)]
        ours, theirs = bodies[: self._threads], bodies[self._threads :]
        for at, process in enumerate(self._processes):
            share = theirs[at * self._threads : (at + 1) * self._threads]
            _tell(process, {"operation": operation, "key": key, "expected": expected, "bodies": share})
        raced = self._here(store, key, operation, expected, ours)
        for at, process in enumerate(self._processes):
            share = theirs[at * self._threads : (at + 1) * self._threads]
            raced += [_judged(body, answer) for body, answer in zip(share, _hear(process), strict=True)]
        return raced

    def _here(
        self, store: Store, key: ObjectKey, operation: str, expected: Token | None, bodies: list[str]
    ) -> list[Raced]:
        start = Barrier(len(bodies))

        def run(body: str) -> Raced:
            start.wait()
            data = body.encode()
            outcome = store.create(key, data) if operation == "create" else store.swap(key, data, expected)
            version = outcome.version if isinstance(outcome, Written) else None
            return _judged(body, {"outcome": type(outcome).__name__, "version": version})

        with ThreadPoolExecutor(len(bodies)) as pool:
            return list(pool.map(run, bodies))


@contextmanager
def racers(store: Store, threads: int, processes: int) -> Iterator[Racers]:
    """Racers for a store; a store that lives in this process alone gets threads alone.

    Effects: starts processes; they end with the block.
    """
    started: list[subprocess.Popen[str]] = []
    try:
        if isinstance(store, Addressed):
            command = [sys.executable, "-c", _START, *sys.path]
            for _ in range(processes):
                pipe = subprocess.PIPE
                started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True))
            for process in started:
                _tell(process, store.address)
            for process in started:
                _hear(process)
        yield Racers(threads, started)
    finally:
        for process in started:
            _end(process)


def _end(process: "subprocess.Popen[str]") -> None:
    try:
        process.communicate(timeout=_PATIENCE)
    except (subprocess.TimeoutExpired, BrokenPipeError):
        process.kill()
        process.communicate()


def _tell(process: "subprocess.Popen[str]", message: object) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(msgspec.json.encode(message).decode() + "\n")
        process.stdin.flush()
    except BrokenPipeError as err:
        raise _died() from err


def _hear(process: "subprocess.Popen[str]") -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise _died()
    return msgspec.json.decode(line)


def _died() -> UnavailableError:
    return UnavailableError(ErrorCode.STORE_UNAVAILABLE, "a process of the probe could not reach the store")


def _judged(body: str, answer: dict[str, Any]) -> Raced:
    if answer["outcome"] == Written.__name__:
        return Raced(data=body.encode(), outcome="won", version=answer["version"])
    certain = answer["outcome"] in ("Lost", "Conflict")
    return Raced(data=body.encode(), outcome="lost" if certain else "unclear", version=None)

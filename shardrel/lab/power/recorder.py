"""A process and what strace sees of it. Source: schemas/SPEC.md#power-loss."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shardrel.errors import ErrorCode, InvalidInputError, RunFailedError
from shardrel.lab.power.operations import Operation
from shardrel.lab.power.reading import TRACED, read_operations

_PATIENCE = 600
_PROGRAM = Path(__file__).resolve().parents[3]
"""Where the child finds the package, installed or not."""

_LONGEST = 1 << 26
"""Bytes of one write that are recorded; strace marks what it cuts, which is refused."""


def need_strace() -> str:
    """Where strace is.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    found = shutil.which("strace")
    if found is None:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID, "this needs strace, to see a process's system calls: apt-get install strace"
        )
    return found


def record(scratch: Path, folder: Path, task: dict[str, Any]) -> list[Operation]:
    """Run a task of ``child`` in a process of its own, and read what it did below a folder.

    Args:
        scratch: For the trace and the marks; no part of the folder.
        folder: What is recorded.
        task: What the process gets on stdin.

    Raises:
        InvalidInputError: ``input.invalid`` where there is no strace, or it may not trace; ``input.corrupt``.
        RunFailedError: ``run.rank-failed``: the process failed, or was not done in time.

    Effects: what the task does; two files in the scratch folder.
    """
    scratch, folder = scratch.resolve(), folder.resolve()
    trace, marks = scratch / "trace", scratch / "marks"
    command = [
        need_strace(), "-f", "-y", "-xx", "-qq", "--seccomp-bpf", "-s", str(_LONGEST), "-e", "signal=none",
        "-e", f"trace={','.join(TRACED)}", "-o", str(trace), sys.executable, "-m", "shardrel.lab.power.child",
    ]  # fmt: skip
    line = json.dumps({**task, "marks": str(marks)}) + "\n"
    status, said = ended(command, line, _PATIENCE)
    if status:
        raise _failed(said)
    with trace.open(encoding="ascii") as lines:
        return read_operations(lines, str(folder), str(marks))


def ended(command: Sequence[str], line: str, patience_s: float) -> tuple[int, str]:
    """Status of a process that got a line on stdin, and what it said on stderr.

    Raises:
        RunFailedError: ``run.rank-failed``: it was not done in time. Whom strace traces would outlive it; all are killed.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=_PROGRAM, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        try:
            _, said = process.communicate(line, patience_s)
        except subprocess.TimeoutExpired as err:
            raise RunFailedError(ErrorCode.RUN_RANK_FAILED, "the recorded process was not done in time") from err
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said


def _failed(said: str) -> InvalidInputError | RunFailedError:
    last = (said.strip().splitlines() or ["nothing was said"])[-1]
    if "ptrace" in said or "PTRACE" in said:
        return InvalidInputError(
            ErrorCode.INPUT_INVALID, f"strace may not trace a process here (a container needs SYS_PTRACE): {last}"
        )
    return RunFailedError(ErrorCode.RUN_RANK_FAILED, f"the recorded process failed: {last}")

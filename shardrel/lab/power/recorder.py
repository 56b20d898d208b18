"""A process and what strace sees of it. Source: schemas/SPEC.md#power-loss."""

import json
import shutil
import subprocess
import sys
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
        RunFailedError: ``run.rank-failed``: the process failed.

    Effects: what the task does; two files in the scratch folder.
    """
    scratch, folder = scratch.resolve(), folder.resolve()
    trace, marks = scratch / "trace", scratch / "marks"
    command = [
        need_strace(), "-f", "-y", "-xx", "-qq", "--seccomp-bpf", "-s", str(_LONGEST), "-e", "signal=none",
        "-e", f"trace={','.join(TRACED)}", "-o", str(trace), sys.executable, "-m", "shardrel.lab.power.child",
    ]  # fmt: skip
    line = json.dumps({**task, "marks": str(marks)}) + "\n"
    done = subprocess.run(
        command, cwd=_PROGRAM, input=line, capture_output=True, text=True, check=False, timeout=_PATIENCE
    )
    if done.returncode:
        raise _failed(done.stderr)
    with trace.open(encoding="ascii") as lines:
        return read_operations(lines, str(folder), str(marks))


def _failed(said: str) -> InvalidInputError | RunFailedError:
    last = (said.strip().splitlines() or ["nothing was said"])[-1]
    if "ptrace" in said or "PTRACE" in said:
        return InvalidInputError(
            ErrorCode.INPUT_INVALID, f"strace may not trace a process here (a container needs SYS_PTRACE): {last}"
        )
    return RunFailedError(ErrorCode.RUN_RANK_FAILED, f"the recorded process failed: {last}")

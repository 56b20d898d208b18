"""Ranks of one job as collective code sees them: a small port, and failure that all ranks share.

Source: schemas/SPEC.md#runs
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from shardrel.canonical import json
from shardrel.errors import ErrorCode, FormatError, RunFailedError, ShardrelError
from shardrel.records.fields import Record


class Group(Protocol):
    """The control plane of a job. It moves small messages; gradients go through torch.distributed."""

    @property
    def rank(self) -> int:
        """This process, 0 is the coordinator."""
        ...

    @property
    def world_size(self) -> int:
        """Ranks of the job."""
        ...

    def exchange(self, message: bytes) -> list[bytes]:
        """Every rank gives one message and gets those of all, in order of the ranks.

        Raises:
            RunFailedError: ``run.barrier-timeout`` with the ranks that didn't come.

        Ranks: all, in the same order of calls.
        """
        ...


class SoloGroup:
    """A job of one process."""

    rank = 0
    world_size = 1

    def exchange(self, message: bytes) -> list[bytes]:
        """Its own message."""
        return [message]


class _Failure(Record, frozen=True, kw_only=True):
    code: str
    message: str
    exit_status: int


_OK = b"+"
_FAILED = b"-"


def together(group: Group, action: Callable[[], bytes]) -> list[bytes]:
    """Run an action on every rank and exchange what it gives.

    Raises:
        RunFailedError: On every rank alike, with the code of the lowest rank that failed and all failed ranks.

    Ranks: all.
    """
    cause: Exception | None = None
    try:
        message = _OK + action()
    except Exception as err:  # noqa: BLE001 (whatever ends this rank's part has to end every rank's)
        cause = err
        message = _FAILED + json.encode(_failure(err))
    answers = group.exchange(message)
    failed = [rank for rank, answer in enumerate(answers) if not answer.startswith(_OK)]
    if failed:
        raise _shared(answers, failed) from cause
    return [answer[1:] for answer in answers]


def on_coordinator(group: Group, action: Callable[[], bytes]) -> bytes:
    """Run an action on rank 0 and give its result, or its failure, to all.

    Ranks: all; the action runs on the coordinator.
    """
    return together(group, action if group.rank == 0 else _nothing)[0]


def _nothing() -> bytes:
    return b""


def _failure(err: Exception) -> _Failure:
    if isinstance(err, ShardrelError):
        return _Failure(code=err.code, message=err.message, exit_status=err.exit_status)
    # The text of a foreign error may quote data; its type doesn't.
    return _Failure(code=ErrorCode.RUN_RANK_FAILED, message=f"a rank ended with {type(err).__name__}", exit_status=1)


def _shared(answers: Sequence[bytes], failed: list[int]) -> RunFailedError:
    code, message, status = ErrorCode.RUN_RANK_FAILED, "a rank failed", RunFailedError.exit_status
    try:
        first = json.decode(answers[failed[0]][1:], _Failure)
        code, message, status = ErrorCode(first.code), first.message, first.exit_status
    except (FormatError, ValueError):
        pass
    ranks = [str(rank) for rank in failed]
    return RunFailedError(code, f"{message} (rank {failed[0]})", ranks=ranks).ending_with(status)

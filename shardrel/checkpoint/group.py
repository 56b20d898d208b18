"""Ranks of one job as collective code sees them: a small port, and failure that all ranks share.

Source: schemas/SPEC.md#runs
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

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


Fact = str | int | list[str] | dict[str, int] | None


class Failure(Record, frozen=True, kw_only=True):
    """What ended a rank, as it tells the others."""

    code: str
    message: str
    exit_status: int
    context: dict[str, Fact]


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
        message = _FAILED + json.encode(failure_of(err))
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


def failure_of(err: Exception) -> Failure:
    """An error as others may hear of it: of a foreign one its type alone, since its text may quote data."""
    if not isinstance(err, ShardrelError):
        message = f"a rank ended with {type(err).__name__}"
        return Failure(code=ErrorCode.RUN_RANK_FAILED, message=message, exit_status=1, context={})
    context = {name: _told(fact) for name, fact in err.context.items() if name != "ranks"}
    return Failure(code=err.code, message=_plain(err.message), exit_status=err.exit_status, context=context)


def shared(failure: Failure, rank: int, ranks: Sequence[int]) -> RunFailedError:
    """What every rank raises.

    Args:
        failure: Of the first rank that failed.
        rank: That one.
        ranks: All that failed.
    """
    try:
        code = ErrorCode(failure.code)
    except ValueError:
        return _unheard(ranks)
    told: dict[str, Any] = {**failure.context, "ranks": [str(one) for one in ranks]}
    return RunFailedError(code, f"{failure.message} (rank {rank})", **told).ending_with(failure.exit_status)


def _shared(answers: Sequence[bytes], failed: list[int]) -> RunFailedError:
    try:
        first = json.decode(answers[failed[0]][1:], Failure)
    except FormatError:
        return _unheard(failed)
    return shared(first, failed[0], failed)


def _unheard(ranks: Sequence[int]) -> RunFailedError:
    message = f"a rank failed (rank {ranks[0]})"
    return RunFailedError(ErrorCode.RUN_RANK_FAILED, message, ranks=[str(one) for one in ranks])


def _told(fact: Any) -> Fact:
    if isinstance(fact, bool) or fact is None:
        return None if fact is None else int(fact)
    if isinstance(fact, int) and abs(fact) <= json.MAX_INTEGER:
        return fact
    if isinstance(fact, Mapping):
        return {
            _plain(str(name)): count
            for name, count in fact.items()
            if isinstance(count, int) and abs(count) <= json.MAX_INTEGER
        }
    return [_plain(str(one)) for one in fact] if isinstance(fact, list | tuple) else _plain(str(fact))


def _plain(text: str) -> str:
    """Names of files may be in any encoding; what ranks tell each other is not."""
    return text.encode(errors="replace").decode()

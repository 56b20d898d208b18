"""Rounds of messages over a rendezvous store, each with one outcome for all ranks. Source: schemas/SPEC.md#runs.

Every request has a deadline of its own: a store whose host hangs or is cut off would else hold its callers for ever.
"""

import datetime
import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from shardrel.canonical import json
from shardrel.checkpoint.group import Failure, failure_of, shared
from shardrel.errors import ErrorCode, FormatError, RunFailedError, ShardrelError, UnavailableError
from shardrel.records.fields import Record

T = TypeVar("T")

GRACE_S = 5.0
"""What is granted on top of a time-out: for a request that only reads, and for ranks that are about to end."""

HANGS = "hangs"
"""Why ``within`` gave up: no answer at all."""

_GONE = ErrorCode.RUN_RANK_FAILED
_GO = b"go"
_SAID = b"+"
_LOST = b"!"


class Rendezvous(Protocol):
    """What is used of ``torch.distributed.Store``."""

    def set(self, key: str, value: bytes, /) -> None: ...
    def get(self, key: str, /) -> bytes: ...
    def multi_get(self, keys: list[str], /) -> list[bytes]: ...
    def wait(self, keys: list[str], timeout: datetime.timedelta, /) -> None: ...
    def check(self, keys: list[str], /) -> bool: ...
    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes: ...
    def delete_key(self, key: str, /) -> bool: ...


class _Abort(Record, frozen=True, kw_only=True):
    """How a round ended; ``failure`` is what a rank that left had found."""

    code: str
    ranks: tuple[int, ...]
    failure: Failure | None = None

    def error(self) -> RunFailedError:
        return (
            aborted(self.code, self.ranks)
            if self.failure is None
            else shared(self.failure, min(self.ranks), self.ranks)
        )


class Board:
    """Where the ranks of one job leave messages for each other.

    Attributes:
        host_is_gone: Nothing can be asked of the store any more, by torch neither.
    """

    def __init__(self, store: Rendezvous, rank: int, world_size: int, timeout_s: float) -> None:
        self.rank = rank
        self.world_size = world_size
        self._store = store
        self._timeout = timeout_s
        self._round = 0
        self._missing: tuple[int, ...] = ()
        self.host_is_gone = False

    def exchange(self, message: bytes) -> list[bytes]:
        """Give one message, get those of all ranks.

        The first rank that knows how a round ends writes it down, and all take that: either every rank
        gets the answers of a round, or none does.

        Raises:
            RunFailedError: ``run.barrier-timeout``, with the ranks that didn't come in time, and so for a rank
                that comes after the others gave up; ``run.rank-failed``, with the rank that has left, or when
                others lost a rank in a collective.

        Ranks: all. Store requests: one write, one wait, one decision, one read, one or two deletes.
        """
        return self._round_of(_SAID + message)

    def lost(self) -> RunFailedError:
        """What to raise when a collective failed: all that live come here, and who doesn't is the guilty one.

        Ranks: all that live; takes up to the time-out and a grace, for a rank may still be on its way to the same
            collective, or see it fail by its time-out alone.
        """
        try:
            self._round_of(_LOST)
        except RunFailedError as err:
            return err
        raise AssertionError("a round with a lost rank always fails")

    def leave(self, *, linger: bool, because: ShardrelError | None = None) -> None:
        """Say that this rank comes to no further round.

        Args:
            because: What ended it, if it is known: the others then end with the same.
            linger: Wait a little until the others have left too, since the store may live in this process, and an
                agent that sees one rank end ends the others.
        """
        if self.host_is_gone:
            return
        others = [rank for rank in range(self.world_size) if rank not in self._missing and rank != self.rank]

        def say() -> None:
            # In this order: whoever waits for this rank alone wakes up by the second, and must not be first to decide.
            failure = None if because is None else failure_of(because)
            self._decide(_Abort(code=ErrorCode.RUN_RANK_FAILED, ranks=(self.rank,), failure=failure))
            self._store.set(self._key(self.rank), _LOST)
            self._store.set(f"left/{self.rank}", b"")
            if linger and others:
                self._store.wait([f"left/{rank}" for rank in others], _seconds(min(GRACE_S, self._timeout)))

        try:
            within(say, 2 * GRACE_S)
        except UnavailableError:
            return  # Whoever hosts the store has left before: nobody is there to be told.

    def _round_of(self, message: bytes) -> list[bytes]:
        try:
            return within(lambda: self._meet(message), self._patience(message) + GRACE_S)
        except UnavailableError as err:
            self.host_is_gone = True
            raise host_gone() from err

    def _patience(self, message: bytes) -> float:
        return self._timeout + (min(GRACE_S, self._timeout) if message[:1] == _LOST else 0)

    def _meet(self, message: bytes) -> list[bytes]:
        keys = [self._key(rank) for rank in range(self.world_size)]
        self._store.set(self._key(self.rank), message)
        late = came_late(self._store, keys, self._patience(message))
        code = _GONE if message[:1] == _LOST else ErrorCode.RUN_TIMEOUT
        verdict = self._decide(_Abort(code=code, ranks=tuple(late)) if late else None)
        if verdict is not None:
            self._missing = verdict.ranks
            for rank in verdict.ranks:  # others may have begun to wait later, and need not wait to the end
                self._store.set(self._key(rank), _LOST)
            raise verdict.error()
        answers = self._store.multi_get(keys)
        if any(answer[:1] != _SAID for answer in answers):
            raise aborted(_GONE, ())
        self._forget()
        self._round += 1
        return [answer[1:] for answer in answers]

    def _decide(self, ours: _Abort | None) -> _Abort | None:
        """Write down how the round ends, unless somebody has; what is written there."""
        wanted = _GO if ours is None else json.encode(ours)
        found = self._store.compare_set(f"{self._round}/verdict", "", wanted.decode())
        return None if found == _GO else read_abort(found)

    def _forget(self) -> None:
        """All ranks are in this round, so all have read the one before."""
        if self._round:
            self._store.delete_key(f"{self._round - 1}/{self.rank}")
            if self.rank == 0:
                self._store.delete_key(f"{self._round - 1}/verdict")

    def _key(self, rank: int) -> str:
        return f"{self._round}/{rank}"


def came_late(store: Rendezvous, keys: list[str], timeout_s: float) -> list[int]:
    """Wait for keys; the places in the list of those that didn't come."""
    try:
        store.wait(keys, _seconds(timeout_s))
    except RuntimeError:
        return [place for place, key in enumerate(keys) if not store.check([key])]
    return []


def within(action: Callable[[], T], seconds: float) -> T:
    """Do something with the rendezvous store, but wait no longer than so many seconds.

    It runs in a thread that is left behind when it hangs: a request to a stopped process never returns.

    Raises:
        UnavailableError: ``store.unavailable``: the store's host is gone, or doesn't answer.
    """
    outcome: list[T | BaseException] = []

    def run() -> None:
        try:
            outcome.append(action())
        except BaseException as err:  # noqa: BLE001 (it is raised again where it belongs)
            outcome.append(err)

    thread = threading.Thread(target=run, name="shardrel-board", daemon=True)
    thread.start()
    thread.join(seconds)
    done = outcome[0] if outcome else None
    if not outcome or isinstance(done, RuntimeError):
        reason = HANGS if not outcome else "gone"
        raise UnavailableError(ErrorCode.STORE_UNAVAILABLE, "the rendezvous store does not answer", reason=reason)
    if isinstance(done, BaseException):
        raise done
    return done  # type: ignore[return-value]


def read_abort(text: bytes) -> _Abort:
    """A verdict that is not *go*."""
    try:
        return json.decode(text, _Abort)
    except FormatError:
        return _Abort(code=_GONE, ranks=())


def write_abort(code: ErrorCode, ranks: Sequence[int]) -> bytes:
    """The same as bytes."""
    return json.encode(_Abort(code=code, ranks=tuple(ranks)))


def aborted(code: str, ranks: Sequence[int]) -> RunFailedError:
    """The failure that an abort stands for."""
    names = [str(rank) for rank in ranks]
    about = ", ".join(names)
    if code == ErrorCode.RUN_TIMEOUT:
        message = f"ranks didn't come to a barrier in time: {about}"
        return RunFailedError(ErrorCode.RUN_TIMEOUT, message, ranks=names).ending_with(UnavailableError.exit_status)
    message = f"ranks are gone: {about}" if names else "a collective failed, though every rank is there"
    return RunFailedError(ErrorCode.RUN_RANK_FAILED, message, ranks=names).ending_with(UnavailableError.exit_status)


def host_gone(advice: str = "") -> RunFailedError:
    """The rendezvous store is gone or hangs. It lives in rank 0, or in the agent beside it."""
    message = f"ranks didn't come to a barrier in time: 0, or what hosts the rendezvous store beside it{advice}"
    return RunFailedError(ErrorCode.RUN_TIMEOUT, message, ranks=["0"]).ending_with(UnavailableError.exit_status)


def _seconds(seconds: float) -> datetime.timedelta:
    return datetime.timedelta(seconds=seconds)

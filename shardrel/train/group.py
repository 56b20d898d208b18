"""The control plane over torch.distributed's rendezvous store. Source: schemas/SPEC.md#runs.

Messages go through that store and not through a collective: whoever waits can then say which ranks
didn't come, on every rank, and a process that died leaves no other in a collective without end.
"""

import datetime
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from shardrel.checkpoint.group import Group, SoloGroup
from shardrel.errors import ErrorCode, RunFailedError

T = TypeVar("T")

_ABORTED = "aborted"


class Rendezvous(Protocol):
    """What is used of ``torch.distributed.Store``."""

    def set(self, key: str, value: bytes, /) -> None: ...
    def get(self, key: str, /) -> bytes: ...
    def wait(self, keys: list[str], timeout: datetime.timedelta, /) -> None: ...
    def check(self, keys: list[str], /) -> bool: ...
    def delete_key(self, key: str, /) -> bool: ...


class TorchGroup:
    """All ranks of a job, as a ``shardrel.checkpoint.group.Group``."""

    def __init__(self, store: Rendezvous, rank: int, world_size: int, timeout: datetime.timedelta) -> None:
        self.rank = rank
        self.world_size = world_size
        self._store = store
        self._timeout = timeout
        self._round = 0

    def exchange(self, message: bytes) -> list[bytes]:
        """Give one message, get those of all ranks.

        Raises:
            RunFailedError: ``run.barrier-timeout``, with the ranks that didn't come in time; a rank that comes
                after the others gave up gets it too.

        Ranks: all. Store requests: one write, one wait, one read a rank, one delete.
        """
        keys = [f"{self._round}/{rank}" for rank in range(self.world_size)]
        self._asked(lambda: self._store.set(keys[self.rank], message))
        try:
            self._store.wait(keys, self._timeout)
        except RuntimeError as err:
            raise self._give_up(keys) from err
        if self._asked(lambda: self._store.check([_ABORTED])):
            raise _timed_out(self._asked(lambda: self._store.get(_ABORTED)).decode())
        answers = self._asked(lambda: [self._store.get(key) for key in keys])
        if self._round:
            # All ranks are in this round, so all have read the one before.
            self._asked(lambda: self._store.delete_key(f"{self._round - 1}/{self.rank}"))
        self._round += 1
        return answers

    def _give_up(self, keys: list[str]) -> RunFailedError:
        late = self._asked(lambda: [rank for rank, key in enumerate(keys) if not self._store.check([key])])
        text = ",".join(str(rank) for rank in late)
        self._asked(lambda: self._store.set(_ABORTED, text.encode()))
        return _timed_out(text)

    def _asked(self, request: Callable[[], T]) -> T:
        try:
            return request()
        except RuntimeError as err:
            raise RunFailedError(ErrorCode.RUN_TIMEOUT, "the job's rendezvous store does not answer", ranks=[]) from err


def _timed_out(ranks: str) -> RunFailedError:
    return RunFailedError(
        ErrorCode.RUN_TIMEOUT, f"ranks didn't come to a barrier in time: {ranks or 'unknown'}", ranks=ranks.split(",")
    )


@contextmanager
def connect(*, backend: str = "gloo", timeout_s: float = 300.0) -> Iterator[Group]:
    """Join the job that torchrun started; a plain ``python`` is a job of one rank.

    Args:
        backend: Of torch.distributed, for gradients.
        timeout_s: Longest wait for other ranks, in a barrier and in a collective.

    Ranks: all.
    Effects: initialises torch.distributed unless the script did; then it also ends it.
    """
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        yield SoloGroup()
        return
    timeout = datetime.timedelta(seconds=timeout_s)
    ours = not dist.is_initialized()
    if ours:
        store, rank, world_size = next(iter(rendezvous("env://", timeout=timeout)))
        ranks = _prefixed("torch", store)
        dist.init_process_group(backend, store=ranks, rank=rank, world_size=world_size, timeout=timeout)
    else:
        store = dist.distributed_c10d._get_default_store()
    try:
        yield TorchGroup(_prefixed("shardrel", store), dist.get_rank(), dist.get_world_size(), timeout)
    finally:
        if ours:
            dist.destroy_process_group()


def sum_over_ranks(group: Group, tensor: torch.Tensor) -> None:
    """Sum a tensor over all ranks, in place.

    Raises:
        RunFailedError: ``run.rank-failed`` when a peer is gone or does not answer in time.

    Ranks: all.
    """
    if group.world_size == 1:
        return
    try:
        dist.all_reduce(tensor)
    except RuntimeError as err:
        raise RunFailedError(ErrorCode.RUN_RANK_FAILED, "a rank is gone or didn't answer in a collective") from err


def _prefixed(prefix: str, store: Any) -> Any:
    return dist.PrefixStore(prefix, store)  # type: ignore[attr-defined]

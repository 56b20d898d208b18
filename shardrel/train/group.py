"""The ranks of a job: control messages, and collectives that say who is gone. Source: schemas/SPEC.md#runs.

Messages go through torch.distributed's rendezvous store and not through a collective: whoever waits can then
say which ranks didn't come, on every rank, and a process that died leaves no other in a collective without end.
"""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from shardrel.checkpoint.group import Group, SoloGroup
from shardrel.errors import ErrorCode, RunFailedError, ShardrelError, UnavailableError
from shardrel.train.assembly import assemble, environment_seat, environment_store
from shardrel.train.board import GRACE_S, HANGS, Board, Rendezvous, host_gone, within
from shardrel.train.surroundings import environment_watch


class TorchGroup:
    """All ranks of a job, as a ``shardrel.checkpoint.group.Group``."""

    def __init__(self, board: Board) -> None:
        self.board = board

    @property
    def rank(self) -> int:
        """This process, 0 is the coordinator."""
        return self.board.rank

    @property
    def world_size(self) -> int:
        """Ranks of the job."""
        return self.board.world_size

    def exchange(self, message: bytes) -> list[bytes]:
        """As ``Board.exchange``.

        Ranks: all.
        """
        return self.board.exchange(message)


@contextmanager
def connect(*, backend: str = "gloo", timeout_s: float = 300.0) -> Iterator[Group]:
    """Join the job that torchrun started; a plain ``python`` is a job of one rank.

    Args:
        backend: Of torch.distributed, for gradients.
        timeout_s: Longest wait for other ranks, in a barrier and in a collective.

    Raises:
        RunFailedError: ``run.barrier-timeout`` with the ranks that didn't come; ``run.seat-taken``; ``run.rank-failed``
            when a rank is gone while torch.distributed begins.

    Ranks: all.
    Effects: initialises torch.distributed unless the script did; then it also ends it.
    """
    environment_watch()  # a probe gets its answer while ranks are waited for
    seat = environment_seat()
    if seat is None:
        yield SoloGroup()
        return
    ours = not dist.is_initialized()
    store: Any = environment_store(*seat, timeout_s) if ours else dist.distributed_c10d._get_default_store()
    rank, world_size = seat if ours else (dist.get_rank(), dist.get_world_size())
    store = _prefixed("shardrel", store)
    start = _prefixed(assemble(store, rank, world_size, timeout_s), store)
    group = TorchGroup(Board(start, rank, world_size, timeout_s))
    if ours:
        _begin_torch(group, start, backend, timeout_s)
    linger, found = False, None
    try:
        yield group
        linger = True
    except ShardrelError as err:
        linger = True  # all ranks fail alike, and all want to say so
        found = None if isinstance(err, RunFailedError) else err
        environment_watch().ended(err)
        raise
    finally:
        group.board.leave(linger=linger, because=found)
        # Its end asks the store once more, and would wait for ever for one that hangs.
        if ours and dist.is_initialized() and not group.board.host_is_gone:
            dist.destroy_process_group()


def _begin_torch(group: TorchGroup, store: Rendezvous, backend: str, timeout_s: float) -> None:
    def begin() -> None:
        dist.init_process_group(
            backend,
            store=_prefixed("torch", store),
            rank=group.rank,
            world_size=group.world_size,
            timeout=datetime.timedelta(seconds=timeout_s),
        )

    try:
        within(begin, timeout_s + GRACE_S)
    except UnavailableError as err:
        if err.context["reason"] == HANGS:
            raise host_gone() from err
        raise group.board.lost() from err


def sum_over_ranks(group: Group, tensor: torch.Tensor) -> None:
    """Sum a tensor over all ranks, in place.

    Raises:
        RunFailedError: On every rank that lives: ``run.rank-failed`` with the ranks that are gone.

    Ranks: all.
    """
    if group.world_size == 1:
        return
    try:
        dist.all_reduce(tensor)
    except RuntimeError as err:
        if isinstance(group, TorchGroup):
            raise group.board.lost() from err
        raise RunFailedError(ErrorCode.RUN_RANK_FAILED, "a collective failed", ranks=[]) from err


def _prefixed(prefix: str, store: Any) -> Any:
    return dist.PrefixStore(prefix, store)  # type: ignore[attr-defined]

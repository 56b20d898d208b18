"""Rounds of ranks over torch's own in-memory rendezvous store, ranks being threads."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any, TypeVar

import pytest
import torch.distributed as dist

from shardrel import clock
from shardrel.checkpoint.group import together
from shardrel.errors import ErrorCode, InvalidInputError, RunFailedError, UnavailableError
from shardrel.train.assembly import assemble
from shardrel.train.board import Board, Rendezvous, within
from shardrel.train.group import TorchGroup

T = TypeVar("T")


def ranks(world_size: int, part: Callable[[int], T]) -> list[T | BaseException]:
    """One function as every rank; what each gave or raised."""
    with ThreadPoolExecutor(world_size) as pool:
        started: list[Future[T]] = [pool.submit(part, rank) for rank in range(world_size)]
        return [one.exception() or one.result() for one in started]


def board(store: Rendezvous, rank: int, world_size: int, timeout: float = 20) -> Board:
    return Board(store, rank, world_size, timeout)


def outcomes(results: list[Any]) -> set[tuple[str, tuple[str, ...], int]]:
    """Code, guilty ranks and exit status of every failure."""
    assert all(isinstance(one, RunFailedError) for one in results), results
    return {(one.code, tuple(one.context["ranks"]), one.exit_status) for one in results}


def test_every_rank_gets_the_message_of_every_rank_round_after_round() -> None:
    store = dist.HashStore()

    def part(rank: int) -> list[list[bytes]]:
        mine = board(store, rank, 3)
        return [mine.exchange(f"{turn}:{rank}".encode()) for turn in range(4)]

    expected = [[f"{turn}:{rank}".encode() for rank in range(3)] for turn in range(4)]
    assert ranks(3, part) == [expected] * 3
    assert store.num_keys() <= 8  # what was read is forgotten


def test_a_rank_that_does_not_come_is_named_by_all_and_learns_it_when_it_comes_late() -> None:
    store = dist.HashStore()

    def part(rank: int) -> object:
        clock.sleep(0.6 if rank == 1 else 0)
        return board(store, rank, 3, timeout=0.2).exchange(b"")

    assert outcomes(ranks(3, part)) == {(ErrorCode.RUN_TIMEOUT, ("1",), 3)}


class _SlowToDecide:
    """The rank's own decision arrives when another one was written down."""

    def __init__(self, store: Any, delay: float) -> None:
        self._store = store
        self._delay = delay

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        clock.sleep(self._delay)
        return bytes(self._store.compare_set(key, expected, desired))


def test_a_round_ends_alike_for_all_even_where_they_saw_it_differently() -> None:
    """Rank 0 gives up on rank 1, which comes while rank 0 is about to write that down."""
    store = dist.HashStore()

    def part(rank: int) -> object:
        if rank == 1:
            clock.sleep(0.4)
            return board(store, rank, 2).exchange(b"1")
        return board(_SlowToDecide(store, 0.5), rank, 2, timeout=0.2).exchange(b"0")  # type: ignore[arg-type]

    assert ranks(2, part) == [[b"0", b"1"]] * 2


def test_a_rank_that_left_ends_the_others_at_once() -> None:
    store = dist.HashStore()

    def part(rank: int) -> object:
        mine = board(store, rank, 3)
        mine.exchange(b"")
        if rank == 2:
            mine.leave(linger=False)
            return None
        return mine.exchange(b"")

    assert outcomes(ranks(3, part)[:2]) == {(ErrorCode.RUN_RANK_FAILED, ("2",), 3)}


def test_ranks_end_with_what_ended_the_one_that_left() -> None:
    store = dist.HashStore()
    found = InvalidInputError(ErrorCode.INPUT_KEY, "there is no private key admin", key="admin")

    def part(rank: int) -> object:
        mine = board(store, rank, 3)
        if rank == 0:
            mine.leave(linger=True, because=found)
            return None
        return mine.exchange(b"")

    ended = ranks(3, part)[1:]
    assert outcomes(ended) == {(ErrorCode.INPUT_KEY, ("0",), found.exit_status)}
    assert all(one.context["key"] == "admin" for one in ended if isinstance(one, RunFailedError))


def test_a_rank_that_leaves_is_named_also_where_the_others_would_decide_first() -> None:
    """Its decision takes long; nobody may learn that it left before that is written down."""
    store = dist.HashStore()

    def part(rank: int) -> object:
        mine = board(_SlowToDecide(store, 0.3) if rank == 2 else store, rank, 3, timeout=5)  # type: ignore[arg-type]
        if rank == 2:
            mine.leave(linger=False)
            return None
        return mine.exchange(b"")

    assert outcomes(ranks(3, part)[:2]) == {(ErrorCode.RUN_RANK_FAILED, ("2",), 3)}


def test_a_living_rank_whose_collective_ends_by_its_time_out_is_not_called_gone() -> None:
    """Not every rank has a connection to the one that died: some see it by their time-out alone."""
    store = dist.HashStore()

    def part(rank: int) -> object:
        if rank == 2:
            return None
        if rank == 1:
            clock.sleep(1.3)
        return board(store, rank, 3, timeout=1).lost()

    assert outcomes(ranks(3, part)[:2]) == {(ErrorCode.RUN_RANK_FAILED, ("2",), 3)}


def test_after_a_failed_collective_the_living_name_the_dead() -> None:
    store = dist.HashStore()

    def part(rank: int) -> object:
        mine = board(store, rank, 4, timeout=0.3)
        mine.exchange(b"")
        return None if rank == 3 else mine.lost()

    assert outcomes(ranks(4, part)[:3]) == {(ErrorCode.RUN_RANK_FAILED, ("3",), 3)}


def test_who_began_to_wait_later_learns_at_once_that_the_others_gave_up() -> None:
    """Rank 0 would wait for a minute; rank 1 gave up long before."""
    store = dist.HashStore()

    def part(rank: int) -> object:
        return None if rank == 2 else board(store, rank, 3, timeout=0.3 if rank else 60).exchange(b"")

    assert outcomes(ranks(3, part)[:2]) == {(ErrorCode.RUN_TIMEOUT, ("2",), 3)}


def test_a_rank_at_a_checkpoint_learns_that_others_lost_a_collective() -> None:
    store = dist.HashStore()

    def part(rank: int) -> object:
        mine = board(store, rank, 3)
        return mine.lost() if rank else together(TorchGroup(mine), lambda: b"state")

    assert outcomes(ranks(3, part)) == {(ErrorCode.RUN_RANK_FAILED, (), 3)}


def test_the_exit_status_is_that_of_what_ended_the_first_rank() -> None:
    store = dist.HashStore()

    def part(rank: int) -> object:
        def action() -> bytes:
            if rank == 0:
                raise InvalidInputError(ErrorCode.INPUT_NO_SUCH_COLUMN, "there is no such column")
            raise UnavailableError(ErrorCode.STORE_UNAVAILABLE, "nobody answers")

        return together(TorchGroup(board(store, rank, 2)), action)

    assert outcomes(ranks(2, part)) == {(ErrorCode.INPUT_NO_SUCH_COLUMN, ("0", "1"), 2)}


def test_a_store_that_hangs_or_is_gone_holds_nobody() -> None:
    with pytest.raises(UnavailableError) as hangs:
        within(lambda: clock.sleep(3), 0.05)
    assert hangs.value.context["reason"] == "hangs"
    lone = dist.TCPStore("127.0.0.1", 0, 2, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=5))
    client = dist.TCPStore("127.0.0.1", lone.port, 2, is_master=False, timeout=timedelta(seconds=5))
    del lone
    with pytest.raises(RunFailedError) as gone:
        board(client, 1, 2).exchange(b"")
    assert outcomes([gone.value]) == {(ErrorCode.RUN_TIMEOUT, ("0",), 3)}


def assembled(store: Any, rank: int, world_size: int, timeout: float = 20) -> str:
    return assemble(store, rank, world_size, timeout)


def test_each_start_over_the_same_store_has_a_name_of_its_own() -> None:
    store = dist.HashStore()
    names = [ranks(size, lambda rank, size=size: assembled(store, rank, size)) for size in (3, 2, 4)]
    assert [len(set(one)) for one in names] == [1, 1, 1]
    assert len({one[0] for one in names}) == 3


def test_a_start_that_misses_ranks_names_them() -> None:
    store = dist.HashStore()
    results = ranks(4, lambda rank: None if rank in (1, 3) else assembled(store, rank, 4, timeout=0.3))
    assert outcomes([results[0], results[2]]) == {(ErrorCode.RUN_TIMEOUT, ("1", "3"), 3)}


def test_without_a_coordinator_all_name_it() -> None:
    store = dist.HashStore()
    results = ranks(3, lambda rank: None if rank == 0 else assembled(store, rank, 3, timeout=0.2))
    assert outcomes(results[1:]) == {(ErrorCode.RUN_TIMEOUT, ("0",), 3)}


def test_a_replacement_that_comes_to_a_job_which_has_begun_is_not_let_in() -> None:
    store = dist.HashStore()
    ranks(3, lambda rank: assembled(store, rank, 3))
    with pytest.raises(RunFailedError) as late:
        assembled(store, 1, 3, timeout=0.2)
    assert outcomes([late.value]) == {(ErrorCode.RUN_SEAT_TAKEN, ("1",), 3)}

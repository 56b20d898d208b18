"""How the processes of one start of a job find each other. Source: schemas/SPEC.md#runs.

A rendezvous store may outlive a start: torchrun's agent keeps one over restarts, with all that earlier ranks left in
it. So rank 0 draws a name for this start and hands it to whoever knocks with a nonce of its own; a process that comes
when the job has begun is not let in.
"""

import datetime
import os
from typing import Any

from shardrel import clock
from shardrel.errors import ErrorCode, RunFailedError, UnavailableError
from shardrel.train.board import GRACE_S, Rendezvous, aborted, came_late, host_gone, read_abort, within, write_abort

_BEGUN = "begun"
_OPEN = b"open"
_PAUSES = (0.002, 0.05)
_STALE = "; where nodes come and go, start torchrun's agents with --rdzv-backend=shardrel"


def assemble(store: Rendezvous, rank: int, world_size: int, timeout_s: float) -> str:
    """Find all ranks of this start; what the keys of this start begin with.

    Raises:
        RunFailedError: On every rank alike ``run.barrier-timeout`` with the ranks that didn't come;
            ``run.seat-taken`` on a process that comes to a job which has begun without it.

    Ranks: all.
    """
    part = _gather if rank == 0 else _knock
    try:
        return within(lambda: part(store, rank, world_size, timeout_s), 2 * (timeout_s + GRACE_S))
    except UnavailableError as err:
        raise _host_gone() from err


def _gather(store: Rendezvous, _rank: int, world_size: int, timeout_s: float) -> str:
    name = clock.fresh_id()
    store.delete_key(_BEGUN)
    late = _let_in(store, name, set(range(1, world_size)), clock.monotonic() + timeout_s)
    if late:
        store.set(f"{name}/assembled", write_abort(ErrorCode.RUN_TIMEOUT, late))
        raise aborted(ErrorCode.RUN_TIMEOUT, late)
    store.set(_BEGUN, name.encode())
    store.set(f"{name}/assembled", _OPEN)
    return name


def _let_in(store: Rendezvous, name: str, outside: set[int], deadline: float) -> list[int]:
    """Answer everybody who knocks; the ranks that have not come in by then."""
    answered: dict[int, bytes] = {}
    pause = _PAUSES[0]
    while outside and clock.monotonic() < deadline:
        for rank in sorted(outside):
            if store.check([f"knock/{rank}"]):
                nonce = store.get(f"knock/{rank}")
                if answered.get(rank) != nonce:
                    store.set(f"door/{nonce.decode()}", name.encode())
                    answered[rank] = nonce
                if store.check([f"{name}/seat/{nonce.decode()}"]):
                    outside.discard(rank)
        if outside:
            clock.sleep(pause)
            pause = min(2 * pause, _PAUSES[1])
    return sorted(outside)


def _knock(store: Rendezvous, rank: int, _world_size: int, timeout_s: float) -> str:
    nonce = clock.fresh_id()
    store.set(f"knock/{rank}", nonce.encode())
    if came_late(store, [f"door/{nonce}"], timeout_s):
        raise _refused(store, rank)
    name = store.get(f"door/{nonce}").decode()
    store.set(f"{name}/seat/{nonce}", b"")
    # Rank 0 gives up within its own time-out, and says so a moment later.
    if came_late(store, [f"{name}/assembled"], timeout_s + GRACE_S):
        raise aborted(ErrorCode.RUN_TIMEOUT, [0])
    verdict = store.get(f"{name}/assembled")
    if verdict != _OPEN:
        abort = read_abort(verdict)
        raise aborted(abort.code, abort.ranks)
    return name


def _refused(store: Rendezvous, rank: int) -> RunFailedError:
    if not store.check([_BEGUN]):
        return aborted(ErrorCode.RUN_TIMEOUT, [0])
    return RunFailedError(
        ErrorCode.RUN_SEAT_TAKEN,
        f"the job has begun with another process as rank {rank}; restart the whole job, it resumes",
        ranks=[str(rank)],
    ).ending_with(UnavailableError.exit_status)


def _agents_host() -> bool:
    """Whether torchrun's agents say that one of them hosts the store."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _host_gone() -> RunFailedError:
    """Before a start, an agent may have named a store that is gone: it keeps the address of a node that has left."""
    return host_gone(_STALE if _agents_host() else "")


def environment_seat() -> tuple[int, int] | None:
    """Rank and world size that torchrun, or who else starts processes, gave this one; None for a job of one."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return None
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def environment_store(rank: int, world_size: int, timeout_s: float) -> Rendezvous:
    """The rendezvous store that the environment names; rank 0 hosts it unless torchrun's agent does.

    Raises:
        RunFailedError: ``run.barrier-timeout`` naming rank 0.
    """
    import torch.distributed as dist

    agents = _agents_host()
    try:
        store: Any = dist.TCPStore(  # type: ignore[attr-defined]
            os.environ["MASTER_ADDR"],
            int(os.environ["MASTER_PORT"]),
            world_size,
            is_master=rank == 0 and not agents,
            timeout=datetime.timedelta(seconds=timeout_s),
            wait_for_workers=False,
            multi_tenant=True,
        )
    except RuntimeError as err:
        raise _host_gone() from err
    return store  # type: ignore[no-any-return]

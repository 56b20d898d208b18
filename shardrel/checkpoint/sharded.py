"""Save and load sharded states through torch.distributed.checkpoint. Source: schemas/SPEC.md#checkpoints.

What FSDP2, tensor parallelism, DDP and plain modules give (``get_state_dict``) goes through ``dcp.save`` and
``dcp.load`` with this product's storage, and comes back at any other world size and placement.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

from shardrel.canonical import json
from shardrel.checkpoint.attempts import Committed
from shardrel.checkpoint.collective import ProcessGroupRanks, rank_gone
from shardrel.checkpoint.group import Group, SoloGroup, on_coordinator, together
from shardrel.checkpoint.load import Choice, choose
from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.objects import ObjectReader
from shardrel.checkpoint.preflight import read_manifest
from shardrel.checkpoint.save import Saved
from shardrel.checkpoint.sharded_plan import TreeLoadPlanner, TreeSavePlanner
from shardrel.checkpoint.sharded_reader import CommittedReader
from shardrel.checkpoint.sharded_writer import CommitWriter, Purpose, committed
from shardrel.checkpoint.writing import Kept
from shardrel.errors import ErrorCode, RunFailedError, ShardrelError
from shardrel.records.checkpoint import Cut
from shardrel.store.port import Store
from shardrel.trust.signer import Signer

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a sharded state was filled from; see ``load.Restored``."""

    generation: int
    cut: Cut
    world_size: int
    helped: bool
    passed_over: tuple[tuple[int, str], ...]


def save_sharded(
    store: Store,
    state: dict[str, Any],
    purpose: Purpose,
    *,
    process_group: dist.ProcessGroup | None = None,
    kept: Kept | None = None,
) -> Saved:
    """Save a state that is spread over ranks; on return the gate has admitted it.

    Args:
        store: Where the run's objects are.
        state: Names to nested state with tensors and DTensors.
        purpose: Of what run and moment.
        process_group: The ranks; all of them where none is given. Without torch.distributed: one process.
        kept: What this process saved last of this run; what has not changed is not written again.

    Raises:
        RunFailedError: On every rank alike, with the code of the lowest rank that failed.

    Ranks: all.
    Effects: objects, then manifest, then commit record, then the gate's head.
    """
    kept = kept or Kept()
    writer, planner = CommitWriter(store, purpose, kept), TreeSavePlanner(purpose.owners)
    metadata = in_our_words(
        lambda: dcp_save(
            state,
            storage_writer=writer,
            planner=planner,
            process_group=process_group,
            no_dist=not dist.is_initialized(),
        )
    )
    done: Committed = committed(metadata)
    kept.admitted(done.commit)
    return Saved(generation=done.generation, commit=done.commit, step=purpose.cut.step)


def load_sharded(
    store: Store,
    state: dict[str, Any],
    *,
    dataset: str,
    expected: Expected,
    signer: Signer | None,
    replicas: Sequence[Store] = (),
    process_group: dist.ProcessGroup | None = None,
) -> Loaded | None:
    """Fill a state, spread over ranks in any way, from the run's newest complete checkpoint.

    Each byte is read and hashed once, by whoever needs it. A generation that turns out to be lost or damaged on some
    rank is passed over by all of them for the one before.

    Args:
        store: Where the run's objects are.
        state: As for ``save_sharded``, with tensors of the right shapes; filled in place.
        dataset: The gate of the run.
        expected: What the checkpoint must be of.
        signer: A key of the runner's role; needed on the coordinator.
        replicas: Stores that are asked for what is absent or damaged in the run's own.
        process_group: The ranks.

    Returns:
        Null, and the state untouched, when the run has no checkpoint yet.

    Raises:
        RunFailedError: On every rank alike. The state may be filled in part then and is of no use.

    Ranks: all.
    """
    group: Group = ProcessGroupRanks(process_group) if dist.is_initialized() else SoloGroup()
    passed: dict[int, ErrorCode] = {}
    while True:
        choice = json.decode(
            on_coordinator(
                group, lambda: choose(store, dataset, expected, signer, passed, replicas=replicas, every_byte=False)
            ),
            Choice,
        )
        if choice.commit is None:
            return None
        try:
            _fill(group, ObjectReader(store, replicas), state, choice, process_group)
        except RunFailedError as err:
            if getattr(err.__cause__, "code", None) not in _LOST:
                raise
            passed[choice.commit.generation] = err.code
            continue
        return Loaded(
            generation=choice.commit.generation,
            cut=choice.commit.cut,
            world_size=choice.commit.world_size,
            helped=choice.helped,
            passed_over=tuple((one.generation, one.code) for one in choice.passed_over),
        )


def _fill(
    group: Group,
    objects: ObjectReader,
    state: dict[str, Any],
    choice: Choice,
    process_group: dist.ProcessGroup | None,
) -> None:
    readers: list[CommittedReader] = []
    commit = choice.commit
    assert commit is not None

    def open_it() -> bytes:
        readers.append(CommittedReader(read_manifest(objects.store, commit), objects))
        return b""

    together(group, open_it)
    in_our_words(
        lambda: dcp_load(
            state,
            storage_reader=readers[0],
            planner=TreeLoadPlanner(),
            process_group=process_group,
            no_dist=not dist.is_initialized(),
        )
    )


def alone(action: Callable[[], T]) -> T:
    """Do something of DCP in a job of one process, without its warning that there is one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        return action()


_AS_CHECKPOINT = {
    ErrorCode.STORAGE_ABSENT: ErrorCode.CHECKPOINT_MISSING,
    ErrorCode.STORAGE_SIZE: ErrorCode.CHECKPOINT_BYTES,
    ErrorCode.STORAGE_DIGEST: ErrorCode.CHECKPOINT_BYTES,
    ErrorCode.STORAGE_TOO_LARGE: ErrorCode.CHECKPOINT_BYTES,
}


_LOST = frozenset({*_AS_CHECKPOINT, ErrorCode.CHECKPOINT_BYTES})
"""What a rank meets when bytes are gone or damaged. That the state has a name which the checkpoint lacks is another
thing: going back would hide it."""


def in_our_words(action: Callable[[], T]) -> T:
    """Do something of DCP, whose failures hold what the ranks raised.

    Raises:
        RunFailedError: With the code of the lowest rank that failed, and all failed ranks; ``run.rank-failed`` without
            any where one of DCP's collectives failed.
    """
    try:
        return action() if dist.is_initialized() else alone(action)
    except RuntimeError as err:
        if not dist.is_initialized():
            raise
        raise rank_gone() from err
    except CheckpointException as err:
        failures = err.failures
        ranks = sorted(failures)
        first = failures[ranks[0]][0]
        told = [str(rank) for rank in ranks]
        if not isinstance(first, ShardrelError):
            # The text of a foreign error may quote data; its type doesn't.
            message = f"a rank ended with {type(first).__name__} (rank {ranks[0]})"
            raise RunFailedError(ErrorCode.RUN_RANK_FAILED, message, ranks=told) from first
        code = _AS_CHECKPOINT.get(first.code, first.code)
        told = first.context["ranks"] if isinstance(first, RunFailedError) and "ranks" in first.context else told  # type: ignore[assignment]
        raise RunFailedError(
            code, f"{first.message} (rank {ranks[0]})", **{**first.context, "ranks": told}
        ).ending_with(first.exit_status) from first

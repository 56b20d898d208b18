"""One checkpoint transaction, by one process for all ranks, in one order. Source: schemas/SPEC.md#checkpoints.

The steps are those of ``checkpoint.save``. There they are spread over the ranks of a job; here one process takes them
one after the other, so that the events of two transactions can be compared.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from shardrel.checkpoint.attempts import Attempt, Committed, begin, commit, manifest_of, needed
from shardrel.checkpoint.coverage import Box
from shardrel.checkpoint.cut import Captured, Mixed, agree
from shardrel.checkpoint.manifest import tensor_entries
from shardrel.checkpoint.ownership import owned_regions
from shardrel.checkpoint.tensors import CapturedState, elements_of, replica_digest, take_apart
from shardrel.checkpoint.writing import Kept, Piece, Stamp, write_pieces
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.records.checkpoint import Cut, OrderParameters, Region
from shardrel.store.port import Store
from shardrel.trust.signer import Signer

Copies = Sequence[tuple[dict[str, Any], Cut]]


def transact(
    store: Store, dataset: str, run: str, name: str, copies: Copies, order: OrderParameters, signer: Signer
) -> Committed:
    """Save what the ranks hold as the next generation.

    Args:
        store: Where the run is.
        dataset: Its gate.
        run: The run.
        name: Of the attempt; the same name in two stores gives the same records.
        copies: State and cut of every rank.
        order: Of the samples.
        signer: A key of the runner's role.

    Raises:
        RunFailedError: ``checkpoint.cut`` where the copies are not one.

    Effects: objects, manifest, commit record, the gate's head.
    """
    attempt = replace(begin(store, dataset, run, signer), attempt=name)
    captured = [take_apart(state) for state, _ in copies]
    cut = copies[0][1]
    _check(attempt, captured, [cut for _, cut in copies])
    stored = [
        one for rank in range(len(copies)) for one in _write(store, captured[rank], rank, len(copies), attempt, cut)
    ]
    entries = tensor_entries(captured[0].specs, stored)
    manifest = manifest_of(attempt, cut, order, entries, captured[0].trees, len(copies))
    return commit(store, dataset, manifest, attempt, needed(signer))


def _check(attempt: Attempt, captured: list[CapturedState], cuts: list[Cut]) -> None:
    captures = [
        Captured(rank=rank, attempt=attempt.attempt, cut=cuts[rank], replica=replica_digest(one))
        for rank, one in enumerate(captured)
    ]
    verdict = agree(captures, len(captures))
    if isinstance(verdict, Mixed):
        raise RunFailedError(
            ErrorCode.CHECKPOINT_CUT, "the ranks hold different states", ranks=[str(rank) for rank in verdict.ranks]
        )


def _write(
    store: Store, captured: CapturedState, rank: int, world_size: int, attempt: Attempt, cut: Cut
) -> list[tuple[int, Region]]:
    owned = owned_regions(captured.specs, rank, world_size)
    pieces = []
    for one in owned:
        tensor = captured.tensors[one.tensor]
        whole = Box((0,) * tensor.ndim, tuple(tensor.shape))
        pieces.append(
            Piece(
                box=one.box,
                item_bytes=captured.specs[one.tensor].item_bytes,
                elements=elements_of(tensor, whole.offsets),
                replicas=tuple(range(world_size)),
            )
        )
    stamp = Stamp(rank=rank, attempt=attempt.attempt, step=cut.step)
    return [(owned[one.piece].tensor, one.region) for one in write_pieces(store, pieces, stamp, Kept())]

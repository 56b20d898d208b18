"""One checkpoint transaction, by one process for all ranks, in one order. Source: schemas/SPEC.md#checkpoints.

The steps are those of ``checkpoint.save``, by the same functions. There they are spread over the ranks of a job; here
one process takes them one after the other, so that the events of two transactions can be compared.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from shardrel.checkpoint.attempts import Committed, begin, needed
from shardrel.checkpoint.parts import Seat, check_one_moment, commit_parts, write_part
from shardrel.checkpoint.tensors import take_apart
from shardrel.records.checkpoint import Cut, OrderParameters
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
        RunFailedError: ``checkpoint.replica`` where the copies are not one.

    Effects: objects, manifest, commit record, the gate's head.
    """
    attempt = replace(begin(store, dataset, run, signer), attempt=name)
    captured = [take_apart(state) for state, _ in copies]
    reports = [
        write_part(store, captured[rank], Seat(rank=rank, world_size=len(copies)), attempt, cut)
        for rank, (_, cut) in enumerate(copies)
    ]
    check_one_moment(reports, len(copies))
    return commit_parts(store, dataset, attempt, captured[0], reports, order, needed(signer))

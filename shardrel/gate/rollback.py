"""rollback: a higher generation at an old root. Source: schemas/SPEC.md#transitions."""

from shardrel.digest import parse_digest
from shardrel.gate.admit import Moved, move
from shardrel.gate.call import Call
from shardrel.gate.view import GateView
from shardrel.records.transition import Assume, Rollback
from shardrel.store.layout import check_name
from shardrel.store.port import Store


def rollback(
    store: Store,
    dataset: str,
    root: str,
    alias: str,
    call: Call,
    *,
    expect_generation: int | None = None,
    view: GateView | None = None,
) -> Moved:
    """Move an alias to a root that was admitted before and is eligible at today's fences.

    The generation grows; it never goes back.

    Raises:
        NotFoundError: ``gate.no-such-alias``, ``gate.unknown-root`` for a root that was never admitted.
        ShardrelError: As ``admit.admit``.

    Effects: as ``register.submit``.
    """
    assume = Assume(generation=expect_generation)
    request = Rollback(assume=assume, alias=check_name(alias, "alias"), root=parse_digest(root))
    return move(store, dataset, request, call, view)

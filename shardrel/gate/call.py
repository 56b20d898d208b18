"""How a verb reaches the gate: who signs, under which operation id, at what time."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from shardrel.gate.pending import forget, operation
from shardrel.gate.register import Gather, Submitted, submit
from shardrel.gate.view import GateView
from shardrel.records.transition import Request
from shardrel.store.port import Store
from shardrel.trust.signer import Signer


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What every verb that moves the gate needs of its caller.

    Attributes:
        signers: Keys that sign the transition.
        recorded_at: The caller's time, RFC 3339 in UTC; no rule reads it.
        operation_id: Names the effect; None makes one.
        pending: Folder in which a made id is kept until its outcome is known; None keeps none.
    """

    signers: Sequence[Signer]
    recorded_at: str
    operation_id: str | None
    pending: Path | None


def perform(
    store: Store, dataset: str, request: Request, call: Call, gather: Gather, *, view: GateView | None = None
) -> Submitted:
    """Submit a request under the caller's operation id, or one that is kept until the outcome is known.

    Raises:
        ShardrelError: As ``register.submit``.

    Effects: as ``register.submit``.
    """
    with operation(call.pending, _subject(store, dataset, request), call.operation_id) as operation_id:
        return submit(
            store,
            dataset,
            request,
            operation_id=operation_id,
            signers=call.signers,
            gather=gather,
            recorded_at=call.recorded_at,
            view=view,
        )


def settled(store: Store, dataset: str, request: Request, call: Call) -> None:
    """Forget the ids that earlier calls kept for a request whose effect the caller has seen.

    Otherwise the next such request, which may be due much later, would be answered by that old operation.
    """
    forget(call.pending, _subject(store, dataset, request))


def _subject(store: Store, dataset: str, request: Request) -> list[object]:
    return [store.url, dataset, msgspec.to_builtins(request)]

"""fence: take new entries, and close every permit that is bound to lower watermarks.

Source: schemas/SPEC.md#transitions, #fence-logs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from shardrel.canonical import json
from shardrel.digest import digest_of
from shardrel.errors import ConflictError, ErrorCode, RefusedError
from shardrel.gate.call import Call
from shardrel.gate.facts import Evidence
from shardrel.gate.fences import Entry, append, read_facts, read_log
from shardrel.gate.operations import Done, find_done, find_intent
from shardrel.gate.pending import operation
from shardrel.gate.register import submit
from shardrel.gate.view import GateView, read_gate
from shardrel.records.gate import Fence, FenceKind
from shardrel.records.transition import AdvanceFence
from shardrel.store.port import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """Where the fence stands, and what this advance closed (nothing for a harmless repeat)."""

    kind: FenceKind
    watermark: int
    closed_permits: tuple[str, ...]
    appended: int


def advance(store: Store, dataset: str, kind: FenceKind, entries: Sequence[Entry], call: Call) -> Advanced:
    """Append entries to a log and advance its fence over them.

    1. Entries at or below the watermark have to equal the log. 2. The rest begins right after it. 3. Store
    the rest as chunks. 4. Submit the advance, which reads the chunks back.

    Args:
        store: Where the gate is.
        dataset: Whose gate.
        kind: Which log.
        entries: Contiguous, at least one, of this log's kind.
        call: Who asks; a governor signs.

    Raises:
        ConflictError: ``fence.gap``.
        RefusedError: ``fence.entry-conflict``, ``fence.step-too-large``.
        ShardrelError: As ``register.submit``.

    Effects: one create a chunk, then as ``register.submit``.
    """
    subject = [store.url, dataset, "fence", kind, digest_of(json.encode([msgspec.to_builtins(e) for e in entries]))]
    with operation(call.pending, subject, call.operation_id) as operation_id:
        view = read_gate(store, dataset)
        done = _earlier(store, view, dataset, operation_id)
        if done is not None:
            return _answer(kind, done, appended=0)
        fence = _fence(view, kind)
        fresh = _new_entries(store, fence, kind, entries)
        if not fresh:
            return Advanced(kind=kind, watermark=fence.watermark, closed_permits=(), appended=0)
        return _advance(store, dataset, kind, fresh, call, operation_id, view)


def _advance(
    store: Store, dataset: str, kind: FenceKind, fresh: list[Entry], call: Call, operation_id: str, view: GateView
) -> Advanced:
    fence, first, last = _fence(view, kind), fresh[0].sequence, fresh[-1].sequence
    if last - fence.watermark > view.policy.max_fence_step:
        raise RefusedError(
            ErrorCode.FENCE_STEP,
            "the policy bounds how many entries one advance may take",
            step=last - fence.watermark,
            bound=view.policy.max_fence_step,
        )
    log = append(store, fresh, fence.log)  # type: ignore[type-var]
    facts = read_facts(store, fence, kind, log, last)
    request = AdvanceFence(fence=kind, first=first, last=last, previous=fence.log, log=log)
    done = submit(
        store,
        dataset,
        request,
        operation_id=operation_id,
        signers=call.signers,
        gather=lambda _: Evidence(signers=frozenset(), log=facts),
        recorded_at=call.recorded_at,
        view=view,
    )
    return _answer(kind, Done(done.transition, done.digest), appended=len(fresh))


def _earlier(store: Store, view: GateView, dataset: str, operation_id: str) -> Done | None:
    """This operation's success, if an earlier try had one; the request cannot be made again from a later state."""
    intent = find_intent(store, dataset, operation_id)
    return None if intent is None else find_done(store, view, intent)


def _new_entries(store: Store, fence: Fence, kind: FenceKind, entries: Sequence[Entry]) -> list[Entry]:
    first = entries[0].sequence
    if first > fence.watermark + 1:
        raise ConflictError(
            ErrorCode.FENCE_GAP,
            "entries begin right after the watermark, or before it as a repeat",
            first=first,
            watermark=fence.watermark,
        )
    old = [entry for entry in entries if entry.sequence <= fence.watermark]
    if old:
        known = {entry.sequence: entry for entry in read_log(store, fence, kind, first)}
        for entry in old:
            if known[entry.sequence] != entry:
                raise RefusedError(
                    ErrorCode.FENCE_CONFLICT, "the log holds another entry of this sequence", sequence=entry.sequence
                )
    return [entry for entry in entries if entry.sequence > fence.watermark]


def _fence(view: GateView, kind: FenceKind) -> Fence:
    return view.body.tombstones if kind == "tombstones" else view.body.benchmarks


def _answer(kind: FenceKind, done: Done, *, appended: int) -> Advanced:
    request = done.transition.request
    if not isinstance(request, AdvanceFence) or request.fence != kind:
        raise RefusedError(
            ErrorCode.GATE_OPERATION_REUSED,
            "this operation id was used for another request",
            operationId=done.transition.operation_id,
        )
    closed = done.transition.effects.closed_permits
    return Advanced(kind=kind, watermark=request.last, closed_permits=closed, appended=appended)

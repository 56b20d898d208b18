"""fence: take new entries, and close every permit that is bound to lower watermarks.

Source: schemas/SPEC.md#transitions, #fence-logs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from shardrel.canonical import json
from shardrel.digest import digest_of
from shardrel.errors import ConflictError, ErrorCode, InternalError, RefusedError
from shardrel.gate.call import Call
from shardrel.gate.facts import Evidence
from shardrel.gate.fences import Entry, read_facts, read_log
from shardrel.gate.operations import Done, find_done, find_intent
from shardrel.gate.pending import operation
from shardrel.gate.register import submit
from shardrel.gate.taking import Taking, compare
from shardrel.gate.view import GateView, read_gate
from shardrel.records.descriptor import Descriptor
from shardrel.records.gate import Fence, FenceKind
from shardrel.records.transition import AdvanceFence, StageFence
from shardrel.store.port import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """Where the fence stands, and what this call did (nothing for a harmless repeat).

    Attributes:
        staged: Where entries are staged up to; None where none are.
        closed_permits: What this advance closed.
        appended: Entries that no log held before.
    """

    kind: FenceKind
    watermark: int
    staged: int | None = None
    closed_permits: tuple[str, ...]
    appended: int


def advance(
    store: Store,
    dataset: str,
    kind: FenceKind,
    entries: Sequence[Entry],
    call: Call,
    *,
    replace_staged: bool = False,
) -> Advanced:
    """Append entries to a log and advance its fence over them.

    1. Entries at or below the watermark have to equal the log, and the others what is staged. 2. The rest begins
    right after it. 3. Store the rest as chunks. 4. Submit the advance, which reads the chunks back.

    Args:
        store: Where the gate is.
        dataset: Whose gate.
        kind: Which log.
        entries: Contiguous, at least one, of this log's kind.
        call: Who asks; a governor signs.
        replace_staged: What is staged is dropped.

    Raises:
        ConflictError: ``fence.gap``, ``fence.staged-conflict``.
        RefusedError: ``fence.entry-conflict``, ``fence.step-too-large``.
        ShardrelError: As ``register.submit``.

    Effects: one create a chunk, then as ``register.submit``.
    """

    def take(view: GateView, operation_id: str) -> Advanced:
        fence = _fence(view, kind)
        taking = compare(store, fence, kind, entries, stage=False, replace=replace_staged)
        try:
            return _advance(store, dataset, kind, taking, call, operation_id, view)
        except ConflictError:
            # Another advance came first. Where it took these very entries, this one is a repeat of it.
            now = _fence(read_gate(store, dataset), kind)
            if not _holds(store, now, kind, entries):
                raise
            return _standing(kind, now)

    return _once(store, dataset, kind, ["fence", _digest(entries), replace_staged], call, take)


def advance_staged(store: Store, dataset: str, kind: FenceKind, call: Call) -> Advanced:
    """Advance a fence over everything that is staged behind it; nothing staged is a harmless repeat.

    Raises:
        RefusedError: ``fence.step-too-large``.
        ShardrelError: As ``register.submit``.

    Effects: as ``register.submit``.
    """

    def take(view: GateView, operation_id: str) -> Advanced:
        staged = _fence(view, kind).staged
        base = _fence(view, kind) if staged is None else Fence(watermark=staged.watermark, log=staged.log)
        return _advance(store, dataset, kind, Taking(base=base, entries=()), call, operation_id, view)

    return _once(store, dataset, kind, ["advance-staged"], call, take)


def stage(
    store: Store,
    dataset: str,
    kind: FenceKind,
    entries: Sequence[Entry],
    call: Call,
    *,
    replace_staged: bool = False,
) -> Advanced:
    """Append entries behind a fence, or behind what is staged there, without advancing it.

    Args:
        store: Where the gate is.
        dataset: Whose gate.
        kind: Which log.
        entries: Contiguous, at least one, of this log's kind.
        call: Who asks; a governor signs.
        replace_staged: They take the place of what is staged.

    Raises:
        ConflictError: ``fence.gap``, ``fence.staged-conflict``.
        RefusedError: ``fence.entry-conflict``, ``fence.step-too-large``.
        ShardrelError: As ``register.submit``.

    Effects: one create a chunk, then as ``register.submit``.
    """

    def take(view: GateView, operation_id: str) -> Advanced:
        fence = _fence(view, kind)
        taking = compare(store, fence, kind, entries, stage=True, replace=replace_staged)
        if not taking.entries:
            return _standing(kind, fence)
        _check_step(view, fence, taking.last)
        log = _written(store, taking)
        request = StageFence(
            fence=kind,
            watermark=fence.watermark,
            first=taking.entries[0].sequence,
            last=taking.last,
            previous=taking.base.log,
            log=log,
            staged=_staged_log(fence),
        )
        facts = read_facts(store, taking.base, kind, log, taking.last)
        evidence = Evidence(signers=frozenset(), log=facts)
        done = _submit(store, dataset, request, evidence, call, operation_id, view)
        return _answer(kind, done, appended=len(taking.entries))

    return _once(store, dataset, kind, ["stage", _digest(entries), replace_staged], call, take)


class _Take(Protocol):
    def __call__(self, view: GateView, operation_id: str) -> Advanced: ...


def _once(store: Store, dataset: str, kind: FenceKind, words: list[object], call: Call, take: _Take) -> Advanced:
    """Take entries under one operation id; the request of an earlier success cannot be made again from a later state."""
    with operation(call.pending, [store.url, dataset, kind, *words], call.operation_id) as operation_id:
        view = read_gate(store, dataset)
        intent = find_intent(store, dataset, operation_id)
        done = None if intent is None else find_done(store, view, intent)
        return take(view, operation_id) if done is None else _answer(kind, done, appended=0)


def _advance(
    store: Store, dataset: str, kind: FenceKind, taking: Taking, call: Call, operation_id: str, view: GateView
) -> Advanced:
    fence = _fence(view, kind)
    if taking.last == fence.watermark:
        return _standing(kind, fence)
    _check_step(view, fence, taking.last)
    log = _written(store, taking)
    request = AdvanceFence(
        fence=kind,
        first=fence.watermark + 1,
        last=taking.last,
        previous=fence.log,
        log=log,
        staged=_staged_log(fence),
        keep=fence.staged if taking.keep else None,
    )
    rest = None
    if request.keep is not None:
        rest = read_facts(store, taking.base, kind, request.keep.log, request.keep.watermark)
    evidence = Evidence(signers=frozenset(), log=read_facts(store, fence, kind, log, taking.last), rest=rest)
    done = _submit(store, dataset, request, evidence, call, operation_id, view)
    return _answer(kind, done, appended=len(taking.entries))


def _submit(
    store: Store,
    dataset: str,
    request: AdvanceFence | StageFence,
    evidence: Evidence,
    call: Call,
    operation_id: str,
    view: GateView,
) -> Done:
    done = submit(
        store,
        dataset,
        request,
        operation_id=operation_id,
        signers=call.signers,
        gather=lambda _: evidence,
        recorded_at=call.recorded_at,
        view=view,
    )
    return Done(done.transition, done.digest)


def _check_step(view: GateView, fence: Fence, last: int) -> None:
    if last - fence.watermark > view.policy.max_fence_step:
        raise RefusedError(
            ErrorCode.FENCE_STEP,
            "the policy bounds how many entries one advance may take",
            step=last - fence.watermark,
            bound=view.policy.max_fence_step,
        )


def _holds(store: Store, fence: Fence, kind: FenceKind, entries: Sequence[Entry]) -> bool:
    """Whether a fence has taken exactly these entries already."""
    if entries[-1].sequence > fence.watermark:
        return False
    known = {entry.sequence: entry for entry in read_log(store, fence, kind, entries[0].sequence)}
    return all(known[entry.sequence] == entry for entry in entries)


def _written(store: Store, taking: Taking) -> Descriptor:
    log = taking.log(store)
    if log is None:
        raise InternalError(ErrorCode.INTERNAL, "entries behind a watermark are in a chunk")
    return log


def _digest(entries: Sequence[Entry]) -> str:
    return digest_of(json.encode([msgspec.to_builtins(entry) for entry in entries]))


def _fence(view: GateView, kind: FenceKind) -> Fence:
    return view.body.tombstones if kind == "tombstones" else view.body.benchmarks


def _staged_log(fence: Fence) -> Descriptor | None:
    return None if fence.staged is None else fence.staged.log


def _standing(kind: FenceKind, fence: Fence) -> Advanced:
    """Nothing moved."""
    staged = None if fence.staged is None else fence.staged.watermark
    return Advanced(kind=kind, watermark=fence.watermark, staged=staged, closed_permits=(), appended=0)


def _answer(kind: FenceKind, done: Done, *, appended: int) -> Advanced:
    """What a transition did, from the transition alone."""
    request, closed = done.transition.request, done.transition.effects.closed_permits
    if isinstance(request, StageFence) and request.fence == kind:
        return Advanced(
            kind=kind, watermark=request.watermark, staged=request.last, closed_permits=closed, appended=appended
        )
    if isinstance(request, AdvanceFence) and request.fence == kind:
        staged = None if request.keep is None else request.keep.watermark
        return Advanced(kind=kind, watermark=request.last, staged=staged, closed_permits=closed, appended=appended)
    raise RefusedError(
        ErrorCode.GATE_OPERATION_REUSED,
        "this operation id was used for another request",
        operationId=done.transition.operation_id,
    )

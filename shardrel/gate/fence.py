"""fence: take new entries, and close every permit that is bound to lower watermarks.

Source: schemas/SPEC.md#transitions, #fence-logs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from shardrel.canonical import json
from shardrel.digest import digest_of
from shardrel.errors import ConflictError, ErrorCode, InternalError, RefusedError
from shardrel.gate.call import Call
from shardrel.gate.facts import Evidence, LogFacts
from shardrel.gate.fences import Entry, read_facts, read_log
from shardrel.gate.operations import find_done, find_intent
from shardrel.gate.pending import operation
from shardrel.gate.refusals import as_error
from shardrel.gate.register import submit
from shardrel.gate.taking import Taking, compare
from shardrel.gate.transitions.fences import too_many
from shardrel.gate.view import GateView, read_gate
from shardrel.records.descriptor import Descriptor
from shardrel.records.gate import Fence, FenceKind
from shardrel.records.transition import AdvanceFence, StageFence, Transition
from shardrel.store.port import Store

Taken = AdvanceFence | StageFence
"""A request that took entries."""


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

    def take(asked: _Asked) -> Advanced:
        taking = compare(store, asked.fence, kind, entries, stage=False, replace=replace_staged)
        try:
            return _advance(asked, taking)
        except ConflictError:
            # Another advance came first. Where it took these very entries, this one is a repeat of it.
            now = _fence(read_gate(store, dataset), kind)
            if not _holds(store, now, kind, entries):
                raise
            return _standing(kind, now)

    def repeats(made: Taken) -> bool:
        return isinstance(made, AdvanceFence) and _took(store, made, entries)

    return _once(store, dataset, kind, ["fence", _digest(entries), replace_staged], call, take, repeats)


def advance_staged(store: Store, dataset: str, kind: FenceKind, call: Call) -> Advanced:
    """Advance a fence over everything that is staged behind it; nothing staged is a harmless repeat.

    Raises:
        RefusedError: ``fence.step-too-large``.
        ShardrelError: As ``register.submit``.

    Effects: as ``register.submit``.
    """

    def take(asked: _Asked) -> Advanced:
        staged = asked.fence.staged
        base = asked.fence if staged is None else Fence(watermark=staged.watermark, log=staged.log)
        return _advance(asked, Taking(base=base, entries=()))

    return _once(store, dataset, kind, ["advance-staged"], call, take, lambda made: isinstance(made, AdvanceFence))


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

    def take(asked: _Asked) -> Advanced:
        fence = asked.fence
        taking = compare(store, fence, kind, entries, stage=True, replace=replace_staged)
        if not taking.entries:
            return _standing(kind, fence)
        request = StageFence(
            fence=kind,
            watermark=fence.watermark,
            first=taking.entries[0].sequence,
            last=taking.last,
            previous=taking.base.log,
            log=_stored(asked, taking),
            staged=_staged_log(fence),
        )
        return _submitted(asked, taking, request, taking.base)

    def repeats(made: Taken) -> bool:
        return isinstance(made, StageFence) and _took(store, made, entries)

    return _once(store, dataset, kind, ["stage", _digest(entries), replace_staged], call, take, repeats)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One operation on one log, at the state that it was first read at."""

    store: Store
    dataset: str
    kind: FenceKind
    call: Call
    operation_id: str
    view: GateView

    @property
    def fence(self) -> Fence:
        """Where the log's fence stands."""
        return _fence(self.view, self.kind)


def _once(
    store: Store,
    dataset: str,
    kind: FenceKind,
    words: list[object],
    call: Call,
    take: Callable[[_Asked], Advanced],
    repeats: Callable[[Taken], bool],
) -> Advanced:
    """Take entries under one operation id.

    The request of an earlier success cannot be made again from a later state, so what it took is compared.
    """
    with operation(call.pending, [store.url, dataset, kind, *words], call.operation_id) as operation_id:
        view = read_gate(store, dataset)
        intent = find_intent(store, dataset, operation_id)
        done = None if intent is None else find_done(store, view, intent)
        if done is not None:
            made = done.transition.request
            if not isinstance(made, AdvanceFence | StageFence) or made.fence != kind or not repeats(made):
                raise _reused(operation_id)
            return _answer(kind, done.transition, appended=0)
        return take(_Asked(store=store, dataset=dataset, kind=kind, call=call, operation_id=operation_id, view=view))


def _advance(asked: _Asked, taking: Taking) -> Advanced:
    fence, kept = asked.fence, None
    if taking.last == fence.watermark:
        return _standing(asked.kind, fence)
    log = _stored(asked, taking)
    if taking.keep and fence.staged is not None:
        kept = read_facts(asked.store, taking.base, asked.kind, fence.staged.log, fence.staged.watermark)
    request = AdvanceFence(
        fence=asked.kind,
        first=fence.watermark + 1,
        last=taking.last,
        previous=fence.log,
        log=log,
        staged=_staged_log(fence),
        keep=fence.staged if taking.keep else None,
    )
    return _submitted(asked, taking, request, fence, rest=kept)


def _stored(asked: _Asked, taking: Taking) -> Descriptor:
    """The newest chunk of what is taken, stored; nothing is where the policy does not allow so many entries."""
    if (refusal := too_many(taking.last - asked.fence.watermark, asked.view.policy)) is not None:
        raise as_error(refusal)
    log = taking.log(asked.store)
    if log is None:
        raise InternalError(ErrorCode.INTERNAL, "entries behind a watermark are in a chunk")
    return log


def _submitted(
    asked: _Asked, taking: Taking, request: AdvanceFence | StageFence, base: Fence, *, rest: LogFacts | None = None
) -> Advanced:
    """Read back what the request names behind ``base``, and submit it."""
    facts = read_facts(asked.store, base, asked.kind, request.log, taking.last)
    evidence = Evidence(signers=frozenset(), log=facts, rest=rest)
    done = submit(
        asked.store,
        asked.dataset,
        request,
        operation_id=asked.operation_id,
        signers=asked.call.signers,
        gather=lambda _: evidence,
        recorded_at=asked.call.recorded_at,
        view=asked.view,
    )
    return _answer(asked.kind, done.transition, appended=len(taking.entries))


def _holds(store: Store, fence: Fence, kind: FenceKind, entries: Sequence[Entry]) -> bool:
    """Whether a fence has taken exactly these entries already."""
    if entries[-1].sequence > fence.watermark:
        return False
    known = {entry.sequence: entry for entry in read_log(store, fence, kind, entries[0].sequence)}
    return all(known[entry.sequence] == entry for entry in entries)


def _took(store: Store, made: Taken, entries: Sequence[Entry]) -> bool:
    """Whether a request that was made took exactly these entries."""
    behind = Fence(watermark=made.last, log=made.log)
    return entries[-1].sequence == made.last and _holds(store, behind, made.fence, entries)


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


def _answer(kind: FenceKind, made: Transition, *, appended: int) -> Advanced:
    """What a transition did, from the transition alone."""
    request, closed = made.request, made.effects.closed_permits
    if isinstance(request, StageFence) and request.fence == kind:
        return Advanced(
            kind=kind, watermark=request.watermark, staged=request.last, closed_permits=closed, appended=appended
        )
    if isinstance(request, AdvanceFence) and request.fence == kind:
        staged = None if request.keep is None else request.keep.watermark
        return Advanced(kind=kind, watermark=request.last, staged=staged, closed_permits=closed, appended=appended)
    raise _reused(made.operation_id)


def _reused(operation_id: str) -> RefusedError:
    return RefusedError(
        ErrorCode.GATE_OPERATION_REUSED, "this operation id was used for another request", operationId=operation_id
    )

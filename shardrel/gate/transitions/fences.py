"""Advance of a fence. Pure. Source: schemas/SPEC.md#transitions, #fence-logs."""

from msgspec.structs import replace

from shardrel.errors import ErrorCode
from shardrel.gate.facts import Accept, Evidence, LogFacts, Refuse, refuse
from shardrel.gate.transitions.permits import close_permits
from shardrel.records.descriptor import Descriptor
from shardrel.records.gate import Closed, Fence, GateBody, Staged
from shardrel.records.policy import Policy
from shardrel.records.transition import AdvanceFence, Effects, GateRole, StageFence


def advance(
    body: GateBody, request: AdvanceFence, evidence: Evidence, policy: Policy, role: GateRole
) -> Accept | Refuse:
    """Take the entries right after the watermark, and close every permit: all are bound to a lower one."""
    fence = _fence(body, request)
    bad = _unsound(fence, request, evidence, policy, starts=[(fence.watermark, fence.log)])
    if bad is not None:
        return bad
    if request.keep is not None and not _follows(fence, request, evidence):
        return refuse(ErrorCode.FENCE_STAGED, "what is staged does not follow these entries")
    moved = _with(
        body,
        request,
        Fence(watermark=request.last, log=request.log, staged=request.keep),
    )
    reason = Closed(by=request.fence, watermark=request.last, sequence=body.sequence)
    moved, closed = close_permits(moved, lambda *_: True, reason)
    return Accept(body=moved, effects=Effects(closed_permits=closed), role=role)


def stage(body: GateBody, request: StageFence, evidence: Evidence, policy: Policy, role: GateRole) -> Accept | Refuse:
    """Append entries that no fence takes yet; behind the watermark they replace what is staged there."""
    fence = _fence(body, request)
    starts = [(fence.watermark, fence.log)] if request.watermark == fence.watermark else []
    if fence.staged is not None and starts:
        starts.append((fence.staged.watermark, fence.staged.log))
    bad = _unsound(fence, request, evidence, policy, starts=starts)
    if bad is not None:
        return bad
    staged = Staged(watermark=request.last, log=request.log)
    return Accept(body=_with(body, request, replace(fence, staged=staged)), effects=Effects(), role=role)


def too_many(step: int, policy: Policy) -> Refuse | None:
    """The refusal of an advance over so many entries, where the policy does not allow it."""
    bound = policy.max_fence_step
    if step <= bound:
        return None
    message = f"the policy lets one advance take {bound} entries; advance over so many at a time"
    return refuse(ErrorCode.FENCE_STEP, message, step=step, bound=bound)


def _fence(body: GateBody, request: AdvanceFence | StageFence) -> Fence:
    return body.tombstones if request.fence == "tombstones" else body.benchmarks


def _with(body: GateBody, request: AdvanceFence | StageFence, fence: Fence) -> GateBody:
    return replace(body, tombstones=fence) if request.fence == "tombstones" else replace(body, benchmarks=fence)


def _follows(fence: Fence, request: AdvanceFence, evidence: Evidence) -> bool:
    """Whether the chunks between these entries and the newest staged one were read back."""
    kept = request.keep
    return (
        kept is not None
        and kept == fence.staged
        and kept.watermark > request.last
        and evidence.rest == LogFacts(previous=request.log, log=kept.log, first=request.last + 1, last=kept.watermark)
    )


def _unsound(
    fence: Fence,
    request: AdvanceFence | StageFence,
    evidence: Evidence,
    policy: Policy,
    *,
    starts: list[tuple[int, Descriptor | None]],
) -> Refuse | None:
    if (request.first - 1, request.previous) not in starts or request.last < request.first:
        return refuse(
            ErrorCode.FENCE_GAP,
            "entries begin right after the watermark and do not go back",
            first=request.first,
            last=request.last,
            watermark=fence.watermark,
        )
    if request.staged != (None if fence.staged is None else fence.staged.log):
        return refuse(ErrorCode.FENCE_STAGED, "other entries are staged by now", watermark=fence.watermark)
    if (bad := too_many(request.last - fence.watermark, policy)) is not None:
        return bad
    read = LogFacts(previous=request.previous, log=request.log, first=request.first, last=request.last)
    if evidence.log != read:
        return refuse(ErrorCode.FENCE_CONFLICT, "the log that was read back is not the one that is named")
    return None

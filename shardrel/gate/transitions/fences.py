"""Advance of a fence. Pure. Source: schemas/SPEC.md#transitions, #fence-logs."""

from msgspec.structs import replace

from shardrel.errors import ErrorCode
from shardrel.gate.facts import Accept, Evidence, LogFacts, Refuse, refuse
from shardrel.gate.transitions.permits import close_permits
from shardrel.records.gate import Closed, Fence, GateBody
from shardrel.records.policy import Policy
from shardrel.records.transition import AdvanceFence, Effects, GateRole


def advance(
    body: GateBody, request: AdvanceFence, evidence: Evidence, policy: Policy, role: GateRole
) -> Accept | Refuse:
    """Take the entries right after the watermark, and close every permit: all are bound to a lower one."""
    fence = body.tombstones if request.fence == "tombstones" else body.benchmarks
    bad = _unsound(fence, request, evidence, policy)
    if bad is not None:
        return bad
    new = Fence(watermark=request.last, log=request.log)
    moved = replace(body, tombstones=new) if request.fence == "tombstones" else replace(body, benchmarks=new)
    reason = Closed(by=request.fence, watermark=request.last, sequence=body.sequence)
    moved, closed = close_permits(moved, lambda _: True, reason)
    return Accept(body=moved, effects=Effects(closed_permits=closed), role=role)


def _unsound(fence: Fence, request: AdvanceFence, evidence: Evidence, policy: Policy) -> Refuse | None:
    if request.first != fence.watermark + 1 or request.last < request.first or request.previous != fence.log:
        return refuse(
            ErrorCode.FENCE_GAP,
            "entries begin right after the watermark and do not go back",
            first=request.first,
            last=request.last,
            watermark=fence.watermark,
        )
    step = request.last - fence.watermark
    if step > policy.max_fence_step:
        return refuse(
            ErrorCode.FENCE_STEP,
            "the policy bounds how many entries one advance may take",
            step=step,
            bound=policy.max_fence_step,
        )
    read = LogFacts(previous=request.previous, log=request.log, first=request.first, last=request.last)
    if evidence.log != read:
        return refuse(ErrorCode.FENCE_CONFLICT, "the log that was read back is not the one that is named")
    return None

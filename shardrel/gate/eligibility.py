"""Whether a root may be used at the gate's fences. Pure. Source: schemas/SPEC.md#transitions (eligible).

Grants rest on the presence of attestations and never on their absence: a FAILED report beside a
sufficient chain of PASSED ones takes nothing away. What takes away is a fence or a revocation.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from shardrel.errors import ErrorCode
from shardrel.gate.facts import Evidence, Refuse, SeenApproval, SeenReport, refuse, sweeping
from shardrel.records.gate import Candidate, Fence, GateBody
from shardrel.records.policy import Policy
from shardrel.records.report import LogRange, Report
from shardrel.trust.policy import is_met, members

_Place = tuple[int, str | None]
_Position = tuple[_Place, _Place]
_START: _Position = ((0, None), (0, None))


@dataclass(frozen=True, slots=True)
class Eligible:
    """The root may be used; these envelopes say so."""

    attestations: tuple[str, ...]


def eligible(
    body: GateBody, root: str, evidence: Evidence, policy: Policy, *, ask_approvals: bool
) -> Eligible | Refuse:
    """Decide whether a root may be used now.

    The approvals of an INVALID root are asked for in any case.
    """
    candidate = body.candidates.get(root)
    if candidate is None:
        return refuse(ErrorCode.GATE_UNKNOWN_ROOT, "the gate has not heard of this root; publish it first", root=root)
    since = candidate.sequence if candidate.state == "INVALID" else 0
    if candidate.state == "INVALID" and body.retention.sweep is not None:
        # Its objects may be among those that are being deleted.
        return sweeping(body.retention.sweep)
    reports = [seen for seen in evidence.reports if _concerns(seen.report, body, root)]
    paths = _paths(reports, policy, since)
    chain = paths.get((_place(body.tombstones), _place(body.benchmarks)))
    if chain is None:
        return _not_verified(body, root, reports, policy, paths)
    if not ask_approvals and candidate.state != "INVALID":
        return Eligible(chain)
    approvals = _approvals(body, root, evidence.approvals, policy, since)
    if isinstance(approvals, Refuse):
        return approvals
    return Eligible(chain + approvals)


def approved(body: GateBody, root: str, evidence: Evidence, policy: Policy) -> bool:
    """Whether enough distinct approver keys said yes to a root that was not revoked."""
    return not isinstance(_approvals(body, root, evidence.approvals, policy, 0), Refuse)


def has_tombstone_hit(body: GateBody, root: str, evidence: Evidence, policy: Policy) -> bool:
    """Whether a trusted report counts members of the root that the tombstones of now name."""
    reports = [seen for seen in evidence.reports if _concerns(seen.report, body, root)]
    passed = _paths(reports, policy, 0)
    return any(
        seen.report.counts.tombstone_hits and _stands(seen.report, body, passed)
        for seen in reports
        if members(policy.roles.verifier, seen.key_ids)
    )


def withheld(body: GateBody, root: str, evidence: Evidence, policy: Policy) -> Refuse | None:
    """What is known against handing out a root's bytes, with the code by which a permit is refused; None: nothing.

    Other than eligibility this rests on what trusted keys said against it, so that a root of which nobody has said
    anything yet may be looked at. A FAILED report stands until enough verifiers passed the root at its fences or later.

    Args:
        body: The gate's state; the root may have left it.
        root: The root.
        evidence: What is attached to it.
        policy: Whose keys count.
    """
    candidate = body.candidates.get(root)
    if candidate is not None and candidate.state == "INVALID":
        return _revoked(root, candidate)
    reports = [seen for seen in evidence.reports if _concerns(seen.report, body, root)]
    passed = _paths(reports, policy, 0)
    trusted = [seen.report for seen in reports if members(policy.roles.verifier, seen.key_ids)]
    failed = [one for one in trusted if one.verdict == "FAILED" and _reaches(one, body, passed)]
    if not failed:
        return None
    verdict = _unpassed(body, root, reports, policy, passed)
    if verdict.code == ErrorCode.GATE_FENCES:  # a re-check of fences alone would say nothing of what was found
        verdict = refuse(
            ErrorCode.GATE_NOT_VERIFIED,
            f"a verifier found something in this root; run: shardrel verify {_first(root)}",
            root=root,
        )
    hits = {
        "tombstoneHits": max(one.counts.tombstone_hits for one in failed),
        "benchmarkHits": max(one.counts.benchmark_hits for one in failed),
    }
    return replace(verdict, context={**verdict.context, **{name: count for name, count in hits.items() if count}})


def _concerns(report: Report, body: GateBody, root: str) -> bool:
    return report.root == root and report.dataset == body.dataset and report.gate_id == body.gate_id


def _passed(report: Report) -> bool:
    counts = msgspec.structs.asdict(report.counts)
    return report.verdict == "PASSED" and report.findings_total == 0 and not any(counts.values())


def _paths(reports: list[SeenReport], policy: Policy, since: int) -> dict[_Position, tuple[str, ...]]:
    """Every position that a full report and deltas behind it reach, with the envelopes of a shortest way there."""
    links = [seen for seen in reports if _passed(seen.report)]
    starts = [seen for seen in links if seen.report.kind == "full" and seen.report.gate_sequence >= since]
    paths = dict(_steps(starts, _START, policy))
    waiting = list(paths)
    deltas = [seen for seen in links if seen.report.kind == "delta"]
    while waiting:
        at = waiting.pop(0)
        for end, path in _steps(deltas, at, policy):
            if end not in paths:
                paths[end] = paths[at] + path
                waiting.append(end)
    return paths


def _steps(links: Iterable[SeenReport], at: _Position, policy: Policy) -> list[tuple[_Position, tuple[str, ...]]]:
    """Where the links that begin at a position lead, each with enough distinct verifier keys behind it."""
    ends: dict[_Position, list[SeenReport]] = {}
    for seen in links:
        end = _end(seen.report, at)
        if end is not None:
            ends.setdefault(end, []).append(seen)
    return [(end, path) for end, group in ends.items() if (path := _by_enough(group, policy)) is not None]


def _by_enough(group: list[SeenReport], policy: Policy) -> tuple[str, ...] | None:
    role = policy.roles.verifier
    heard: set[str] = set()
    used: list[str] = []
    for seen in sorted(group, key=lambda item: item.envelope):
        new = members(role, seen.key_ids) - heard
        if new:
            heard |= new
            used.append(seen.envelope)
        if len(heard) >= role.threshold:
            return tuple(used)
    return None


def _end(report: Report, at: _Position) -> _Position | None:
    tombstones = _moved(report.tombstones, at[0])
    benchmarks = _moved(report.benchmarks, at[1])
    if tombstones is None or benchmarks is None:
        return None
    return tombstones, benchmarks


def _place(fence: Fence) -> _Place:
    return fence.watermark, None if fence.log is None else fence.log.digest


def _moved(seen: LogRange, at: _Place) -> _Place | None:
    """Where a log's range that begins right after ``at`` ends; None when it begins elsewhere or in another log.

    A chunk names all before it, so equal digests of the newest one are equal logs.
    """
    if seen.first == 0 and seen.last == 0:
        return at
    if (seen.first - 1, seen.after) != at or seen.last < seen.first or seen.log is None:
        return None
    return seen.last, seen.log


def _not_verified(
    body: GateBody, root: str, reports: list[SeenReport], policy: Policy, passed: Iterable[_Position]
) -> Refuse:
    candidate = body.candidates[root]
    if candidate.state == "INVALID":
        return _revoked(root, candidate)
    return _unpassed(body, root, reports, policy, passed)


def _revoked(root: str, candidate: Candidate) -> Refuse:
    return refuse(
        ErrorCode.GATE_INVALID_ROOT,
        "the root was revoked; only a later full verification and fresh approvals lift that",
        root=root,
        reason=candidate.reason,
        sequence=candidate.sequence,
    )


def _unpassed(
    body: GateBody, root: str, reports: list[SeenReport], policy: Policy, passed: Iterable[_Position]
) -> Refuse:
    trusted = [seen for seen in reports if members(policy.roles.verifier, seen.key_ids)]
    if any(_stands(seen.report, body, passed) for seen in trusted):
        return refuse(
            ErrorCode.PERMIT_HIT,
            "a report counts members of this root that a fence names; release a snapshot without them",
            root=root,
        )
    full = [seen.key_ids for seen in trusted if seen.report.kind == "full" and _passed(seen.report)]
    if not is_met(policy.roles.verifier, frozenset().union(*full)):
        return refuse(
            ErrorCode.GATE_NOT_VERIFIED,
            f"too few trusted verifiers say that this root passed; run: shardrel verify {_first(root)}",
            root=root,
        )
    return refuse(
        ErrorCode.GATE_FENCES,
        f"the root passed, but not at the gate's fences of now; run: shardrel verify {_first(root)} --fences-only",
        root=root,
        tombstoneWatermark=body.tombstones.watermark,
        benchmarkFence=body.benchmarks.watermark,
    )


def _stands(report: Report, body: GateBody, passed: Iterable[_Position]) -> bool:
    """Whether a report counts hits in entries that the gate has taken."""
    return bool(report.counts.tombstone_hits or report.counts.benchmark_hits) and _reaches(report, body, passed)


def _reaches(report: Report, body: GateBody, passed: Iterable[_Position]) -> bool:
    """Whether what a report says against a root holds now.

    It does not where it looked at entries that are staged, or were replaced: reports that passed went by it.
    """
    pairs = ((report.tombstones, body.tombstones), (report.benchmarks, body.benchmarks))
    for seen, fence in pairs:
        beyond = seen.last > fence.watermark
        if beyond or (seen.last == fence.watermark and seen.last and (seen.last, seen.log) != _place(fence)):
            return False
    last = (report.tombstones.last, report.benchmarks.last)
    return not any(at[0][0] >= last[0] and at[1][0] >= last[1] for at in passed)


def _approvals(
    body: GateBody, root: str, approvals: tuple[SeenApproval, ...], policy: Policy, since: int
) -> tuple[str, ...] | Refuse:
    role = policy.roles.approver
    heard: set[str] = set()
    used: list[str] = []
    for seen in sorted(approvals, key=lambda item: item.envelope):
        said = seen.approval
        ours = said.root == root and said.dataset == body.dataset and said.gate_id == body.gate_id
        new = members(role, seen.key_ids) - heard
        if ours and said.gate_sequence >= since and new and len(heard) < role.threshold:
            heard |= new
            used.append(seen.envelope)
    if len(heard) < role.threshold:
        return refuse(
            ErrorCode.GATE_NOT_APPROVED,
            f"too few distinct approver keys said yes to this root; run: shardrel approve {_first(root)}",
            root=root,
            approvals=len(heard),
            threshold=role.threshold,
        )
    return tuple(used)


def _first(root: str) -> str:
    """As much of the digest of a root that the gate knows as every verb takes for it."""
    return root.removeprefix("sha256:")[:12]

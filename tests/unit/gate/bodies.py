"""Bodies, evidence and decisions for tests of the pure rule."""

from msgspec.structs import replace

from shardrel.digest import digest_of
from shardrel.errors import ErrorCode
from shardrel.gate.facts import Accept, Evidence, LogFacts, Refuse, SeenApproval, SeenReport
from shardrel.gate.transitions import decide
from shardrel.records.descriptor import RECORD_JSON, Descriptor
from shardrel.records.gate import Candidate, Fence, FenceKind, GateBody
from shardrel.records.policy import Policy
from shardrel.records.report import Approval, Report
from shardrel.records.transition import AdvanceFence, Request
from shardrel.trust.keys import key_id
from tests.support import gates

POLICY = gates.a_policy()
ROOT = gates.a_root("one")
OTHER = gates.a_root("two")


def descriptor(name: str) -> Descriptor:
    """A descriptor of some bytes."""
    data = name.encode()
    return Descriptor(media_type=RECORD_JSON, digest=digest_of(data), size=len(data))


def ids(*names: str) -> frozenset[str]:
    """Key ids of test keys."""
    return frozenset(key_id(gates.key(name).public) for name in names)


def empty() -> GateBody:
    """A new gate's body."""
    fence = Fence(watermark=0, log=None)
    return GateBody(
        gate_id="gate",
        dataset=gates.DATASET,
        sequence=1,
        policy=descriptor("policy"),
        tombstones=fence,
        benchmarks=fence,
        aliases={},
        candidates={},
        permits={},
        runs={},
        publications={},
    )


def known(*roots: str) -> GateBody:
    """A body with staged candidates."""
    staged = Candidate(state="STAGED", sequence=1, reason=None)
    return replace(empty(), sequence=2, candidates=dict.fromkeys(roots or (ROOT,), staged))


def seen(report: Report, *names: str) -> SeenReport:
    """A report as it was seen, by default by the verifier."""
    return SeenReport(
        envelope=digest_of(repr((report, names)).encode()), key_ids=ids(*(names or ("verifier",))), report=report
    )


def said(approval: Approval, *names: str) -> SeenApproval:
    """An approval as it was seen, by default by the approver."""
    return SeenApproval(
        envelope=digest_of(repr((approval, names)).encode()), key_ids=ids(*(names or ("approver",))), approval=approval
    )


def evidence(*reports: SeenReport, approvals: tuple[SeenApproval, ...] = (), signer: str = "admin") -> Evidence:
    """Evidence with a signer."""
    return Evidence(signers=ids(signer), reports=reports, approvals=approvals)


def good(body: GateBody, root: str = ROOT) -> Evidence:
    """A full PASSED report and an approval, both of now."""
    return evidence(seen(gates.a_report(body, root)), approvals=(said(gates.an_approval(body, root)),))


def accepted(body: GateBody, request: Request, given: Evidence, policy: Policy = POLICY) -> Accept:
    """The acceptance, which must be one."""
    verdict = decide(body, request, given, policy)
    assert isinstance(verdict, Accept), verdict
    return verdict


def refused(body: GateBody | None, request: Request, given: Evidence, policy: Policy = POLICY) -> ErrorCode:
    """The code of the refusal, which must be one."""
    verdict = decide(body, request, given, policy)
    assert isinstance(verdict, Refuse), verdict
    return verdict.code


def advanced(body: GateBody, kind: FenceKind = "tombstones", by: int = 1) -> GateBody:
    """The body after an advance."""
    request = advance_request(body, kind, by)
    return accepted(body, request, advance_evidence(request)).body


def advance_request(body: GateBody, kind: FenceKind = "tombstones", by: int = 1) -> AdvanceFence:
    """An advance by so many entries."""
    fence = body.tombstones if kind == "tombstones" else body.benchmarks
    last = fence.watermark + by
    return AdvanceFence(
        fence=kind, first=fence.watermark + 1, last=last, previous=fence.log, log=descriptor(f"{kind} {last}")
    )


def advance_evidence(request: AdvanceFence, signer: str = "admin") -> Evidence:
    """The log as it was read back."""
    facts = LogFacts(previous=request.previous, log=request.log, first=request.first, last=request.last)
    return Evidence(signers=ids(signer), log=facts)


def delta(before: GateBody, after: GateBody, *, hits: int = 0) -> Report:
    """A delta report over what came between two bodies."""

    def between(old: Fence, new: Fence):  # type: ignore[no-untyped-def]
        if old == new:
            return gates.log_range(0, 0, None)
        return gates.log_range(old.watermark + 1, new.watermark, new, old)

    ranges = gates.Ranges(
        tombstones=between(before.tombstones, after.tombstones), benchmarks=between(before.benchmarks, after.benchmarks)
    )
    return gates.a_report(after, ROOT, ranges=ranges, kind="delta", hits=hits)

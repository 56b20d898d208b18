"""Moves of an alias, and what takes a root away. Pure. Source: schemas/SPEC.md#transitions."""

from msgspec.structs import replace

from shardrel.errors import ErrorCode
from shardrel.gate.eligibility import eligible
from shardrel.gate.facts import Accept, Evidence, Refuse, refuse
from shardrel.gate.transitions.permits import close_permits, open_permit
from shardrel.records.gate import Alias, Candidate, Closed, GateBody
from shardrel.records.policy import Policy
from shardrel.records.transition import Admit, Effects, GateRole, Revoke, Rollback
from shardrel.trust.policy import members


def admit(
    body: GateBody, request: Admit | Rollback, evidence: Evidence, policy: Policy, role: GateRole
) -> Accept | Refuse:
    """Move the alias to an eligible root, at the next generation."""
    verdict = eligible(body, request.root, evidence, policy, ask_approvals=True)
    if isinstance(verdict, Refuse):
        return verdict
    old = body.aliases.get(request.alias)
    generation = old.generation + 1 if old else 1
    alias = Alias(generation=generation, root=request.root, sequence=body.sequence)
    moved = replace(admitted(body, request.root), aliases={**body.aliases, request.alias: alias})
    moved, effects = open_permit(moved, "publication", request.alias, request.root, generation)
    return Accept(body=moved, effects=effects, role=role, attestations=verdict.attestations)


def rollback(body: GateBody, request: Rollback, evidence: Evidence, policy: Policy, role: GateRole) -> Accept | Refuse:
    """Move the alias, at a higher generation, to a root that was admitted before and is eligible today."""
    if request.alias not in body.aliases:
        return refuse(ErrorCode.GATE_NO_ALIAS, f"there is no alias {request.alias} to roll back", alias=request.alias)
    candidate = body.candidates.get(request.root)
    if candidate is None or candidate.admitted is None:
        return refuse(
            ErrorCode.GATE_UNKNOWN_ROOT, "a rollback goes to a root that was admitted before", root=request.root
        )
    return admit(body, request, evidence, policy, role)


def revoke(body: GateBody, request: Revoke, evidence: Evidence, policy: Policy, role: GateRole) -> Accept | Refuse:
    """Make a root INVALID and close its permits."""
    known = body.candidates.get(request.root)
    if known is None:
        return refuse(ErrorCode.GATE_UNKNOWN_ROOT, "the gate has not heard of this root", root=request.root)
    if request.report is not None and not _failed_report(request, evidence, policy):
        return refuse(
            ErrorCode.TRUST_SUBJECT, "the named report is not a trusted FAILED one about this root", root=request.root
        )
    invalid = replace(known, state="INVALID", sequence=body.sequence, reason=request.reason)
    marked = replace(body, candidates={**body.candidates, request.root: invalid})
    reason = Closed(by="revoke", watermark=None, sequence=body.sequence)
    mixed = frozenset(run.permit for run in body.runs.values() if request.root in run.roots)
    marked, closed = close_permits(marked, lambda name, permit: permit.root == request.root or name in mixed, reason)
    rests = (request.report,) if request.report is not None else ()
    return Accept(body=marked, effects=Effects(closed_permits=closed), role=role, attestations=rests)


def admitted(body: GateBody, root: str) -> GateBody:
    """The body with the root ADMITTED; one that is already keeps its sequence."""
    if body.candidates[root].state == "ADMITTED":
        return body
    candidate = Candidate(state="ADMITTED", sequence=body.sequence, reason=None, admitted=body.sequence)
    return replace(body, candidates={**body.candidates, root: candidate})


def _failed_report(request: Revoke, evidence: Evidence, policy: Policy) -> bool:
    """Whether the report is one of a verifier; one is enough, since it is the governor who revokes."""
    return any(
        seen.envelope == request.report
        and seen.report.root == request.root
        and seen.report.verdict == "FAILED"
        and members(policy.roles.verifier, seen.key_ids)
        for seen in evidence.reports
    )

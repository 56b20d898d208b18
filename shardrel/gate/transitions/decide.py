"""The one rule: who asks for what, of which state, with which evidence. Pure.

Source: schemas/SPEC.md#transitions.
"""

from typing import assert_never

from msgspec.structs import replace

from shardrel.errors import ErrorCode
from shardrel.gate.facts import Accept, Evidence, Refuse, refuse
from shardrel.gate.transitions import admission, fences, publication, retention, runs
from shardrel.gate.transitions import policy as policies
from shardrel.gate.transitions.assumptions import false_assumption
from shardrel.gate.transitions.roles import roles_for, signing_role
from shardrel.records.gate import GateBody
from shardrel.records.policy import Policy
from shardrel.records.transition import (
    Admit,
    AdmitCheckpoint,
    AdvanceFence,
    BeginPublication,
    EndPublication,
    EndRun,
    EndSweep,
    GateRole,
    Init,
    RenewRun,
    Request,
    Retire,
    Revoke,
    Rollback,
    SetPolicy,
    StageFence,
    StartRun,
)

# Of each kind of entry. With all of them full the state stays below the bound of a record.
MAX_ENTRIES = 10_000


def decide(body: GateBody | None, request: Request, evidence: Evidence, policy: Policy | None) -> Accept | Refuse:
    """Decide on one request.

    Args:
        body: The gate's body; None before ``init``.
        request: What is asked for.
        evidence: What was gathered for this request, about its root.
        policy: The body's policy; None before ``init``.

    Returns:
        The next body at sequence + 1, or the refusal.

    Source: schemas/SPEC.md#transitions.
    """
    if isinstance(request, Init):
        return policies.create(body, request, evidence)
    if body is None or policy is None:
        return refuse(ErrorCode.GATE_ABSENT, "the dataset has no gate; run: shardrel init")
    bad = false_assumption(body, request)
    if bad is not None:
        return bad
    role = signing_role(request, policy, evidence.signers)
    if role is None:
        return refuse(
            ErrorCode.TRUST_ROLE,
            "the policy asks for enough keys of this role; name them with --key, or their folder with --keys",
            role=" or ".join(roles_for(request)),
        )
    verdict = _apply(replace(body, sequence=body.sequence + 1), request, evidence, policy, role)
    return _within_limits(body, verdict) if isinstance(verdict, Accept) else verdict


def _apply(body: GateBody, request: Request, evidence: Evidence, policy: Policy, role: GateRole) -> Accept | Refuse:
    match request:
        case BeginPublication():
            return publication.begin(body, request, role)
        case EndPublication():
            return publication.end(body, request, evidence, role)
        case Admit():
            return admission.admit(body, request, evidence, policy, role)
        case Rollback():
            return admission.rollback(body, request, evidence, policy, role)
        case StageFence():
            return fences.stage(body, request, evidence, policy, role)
        case AdvanceFence():
            return fences.advance(body, request, evidence, policy, role)
        case Revoke():
            return admission.revoke(body, request, evidence, policy, role)
        case StartRun():
            return runs.start(body, request, evidence, policy, role)
        case RenewRun():
            return runs.renew(body, request, evidence, policy, role)
        case EndRun():
            return runs.end(body, request, evidence, policy, role)
        case AdmitCheckpoint():
            return runs.admit_checkpoint(body, request, evidence, policy, role)
        case SetPolicy():
            return policies.set_policy(body, request, evidence, role)
        case Retire():
            return retention.retire(body, request, role)
        case EndSweep():
            return retention.end_sweep(body, request, role)
        case Init():
            raise AssertionError("init is decided before")
        case _ as never:
            assert_never(never)


def _within_limits(old: GateBody, verdict: Accept) -> Accept | Refuse:
    """The state stays small: nothing grows past its bound, and what is full may still shrink."""
    for name in ("aliases", "candidates", "permits", "runs", "publications"):
        size = len(getattr(verdict.body, name))
        if size > MAX_ENTRIES and size > len(getattr(old, name)):
            return refuse(ErrorCode.GATE_LIMIT, f"a gate holds at most {MAX_ENTRIES} {name}", entries=size)
    return verdict

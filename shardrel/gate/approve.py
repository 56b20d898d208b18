"""approve: a person's yes to one root digest. Source: schemas/SPEC.md#attestations."""

from dataclasses import dataclass

from shardrel.digest import parse_digest
from shardrel.errors import ErrorCode, NotFoundError, TrustError
from shardrel.gate.attestations import attach
from shardrel.gate.evidence import gather
from shardrel.gate.facts import SeenApproval
from shardrel.gate.view import GateView
from shardrel.records.report import APPROVAL_PREDICATE, STATEMENT_PAYLOAD, Approval
from shardrel.store.port import Store
from shardrel.trust.envelope import seal
from shardrel.trust.keys import key_id
from shardrel.trust.policy import members
from shardrel.trust.signer import Signer
from shardrel.trust.statement import statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """How many distinct approvers said yes since the root was last revoked, and how many the policy asks for."""

    envelope: str
    approvals: int
    needed: int


def approve(store: Store, view: GateView, root: str, signer: Signer, approved_on: str) -> Approved:
    """Sign an approval of a root and attach it; a yes that already counts is not said again.

    Raises:
        NotFoundError: ``gate.unknown-root`` when the gate has not heard of it.
        TrustError: ``trust.role`` when the key is no approver's.
        ShardrelError: As ``attestations.attach``.

    Effects: creates one envelope, or none.
    """
    role = view.policy.roles.approver
    identity = key_id(signer.public)
    if parse_digest(root) not in view.body.candidates:
        raise NotFoundError(
            ErrorCode.GATE_UNKNOWN_ROOT, "the gate has not heard of this root; publish it first", root=root
        )
    if not members(role, frozenset({identity})):
        raise TrustError(ErrorCode.TRUST_ROLE, "the policy names no such approver", key=signer.public.name)
    standing = _standing(store, view, root)
    said = {key for seen in standing for key in seen.key_ids} | {identity}
    own = next((seen.envelope for seen in standing if identity in seen.key_ids), None)
    envelope = own or _attach(store, view, root, signer, approved_on)
    return Approved(envelope=envelope, approvals=len(said), needed=role.threshold)


def _standing(store: Store, view: GateView, root: str) -> list[SeenApproval]:
    """Approvals of this root in this gate that still count."""
    body = view.body
    candidate = body.candidates[root]
    since = candidate.sequence if candidate.state == "INVALID" else 0
    return [
        seen
        for seen in gather(store, root, view.policy).approvals
        if (seen.approval.root, seen.approval.dataset, seen.approval.gate_id) == (root, body.dataset, body.gate_id)
        and seen.approval.gate_sequence >= since
    ]


def _attach(store: Store, view: GateView, root: str, signer: Signer, approved_on: str) -> str:
    body = view.body
    approval = Approval(
        root=root, dataset=body.dataset, gate_id=body.gate_id, gate_sequence=body.sequence, approved_on=approved_on
    )
    payload = statement(root, APPROVAL_PREDICATE, approval, body.dataset)
    return attach(store, root, seal(payload, STATEMENT_PAYLOAD, [signer]))

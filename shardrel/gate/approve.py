"""approve: a person's yes to one root digest. Source: schemas/SPEC.md#attestations."""

from dataclasses import dataclass

from shardrel.errors import ErrorCode, NotFoundError, TrustError
from shardrel.gate.attestations import attach
from shardrel.gate.evidence import gather
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
    """Sign an approval of a root and attach it.

    Raises:
        NotFoundError: ``gate.unknown-root`` when the gate has not heard of it.
        TrustError: ``trust.role`` when the key is no approver.

    Effects: creates one envelope.
    """
    role = view.policy.roles.approver
    candidate = view.body.candidates.get(root)
    if candidate is None:
        raise NotFoundError(
            ErrorCode.GATE_UNKNOWN_ROOT, "the gate has not heard of this root; publish it first", root=root
        )
    if not members(role, frozenset({key_id(signer.public)})):
        raise TrustError(ErrorCode.TRUST_ROLE, "the policy names no such approver", key=signer.public.name)
    approval = Approval(
        root=root,
        dataset=view.body.dataset,
        gate_id=view.body.gate_id,
        gate_sequence=view.body.sequence,
        approved_on=approved_on,
    )
    payload = statement(root, APPROVAL_PREDICATE, approval, view.body.dataset)
    envelope = attach(store, root, seal(payload, STATEMENT_PAYLOAD, [signer]))
    since = candidate.sequence if candidate.state == "INVALID" else 0
    seen = [item for item in gather(store, root, view.policy).approvals if item.approval.gate_sequence >= since]
    return Approved(
        envelope=envelope, approvals=len(frozenset().union(*[item.key_ids for item in seen])), needed=role.threshold
    )

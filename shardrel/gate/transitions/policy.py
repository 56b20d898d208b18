"""How a gate begins, and how its policy is replaced. Pure. Source: schemas/SPEC.md#transitions."""

from msgspec.structs import replace

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.gate.facts import Accept, Evidence, Refuse, refuse
from shardrel.gate.transitions.roles import signing_role
from shardrel.records.gate import Fence, GateBody
from shardrel.records.transition import Effects, GateRole, Init, SetPolicy
from shardrel.trust.policy import validate

# The state holds its text, and stays below the bound of a record with everything else full.
MAX_POLICY_BYTES = 1 << 20


def create(body: GateBody | None, request: Init, evidence: Evidence) -> Accept | Refuse:
    """Begin the gate at sequence 1, by the governor of the policy that it begins with."""
    if body is not None:
        return refuse(ErrorCode.GATE_EXISTS, "the dataset has a gate", dataset=body.dataset, gateId=body.gate_id)
    role = None if evidence.policy is None else signing_role(request, evidence.policy, evidence.signers)
    if role is None:
        return refuse(ErrorCode.TRUST_ROLE, "the governor of the first policy creates the gate")
    bad = _unfit(request, evidence)
    if bad is not None:
        return bad
    empty = Fence(watermark=0, log=None)
    begun = GateBody(
        gate_id=request.gate_id,
        dataset=request.dataset,
        sequence=1,
        policy=request.policy,
        tombstones=empty,
        benchmarks=empty,
        aliases={},
        candidates={},
        permits={},
        runs={},
        publications={},
    )
    return Accept(body=begun, effects=Effects(), role=role)


def set_policy(body: GateBody, request: SetPolicy, evidence: Evidence, role: GateRole) -> Accept | Refuse:
    """Replace the policy; the governors of the old one were asked before, those of the new one here."""
    if request.previous != body.policy:
        return refuse(ErrorCode.GATE_ASSUMPTION, "the gate has another policy than the request takes for the old one")
    if evidence.policy is None or signing_role(request, evidence.policy, evidence.signers) is None:
        return refuse(ErrorCode.TRUST_THRESHOLD, "the governors of the new policy have to sign too")
    return _unfit(request, evidence) or Accept(body=replace(body, policy=request.policy), effects=Effects(), role=role)


def _unfit(request: Init | SetPolicy, evidence: Evidence) -> Refuse | None:
    """Why nobody may put this policy in force: it is too large, or one that leaves a role to nobody."""
    if evidence.policy is not None:
        try:
            validate(evidence.policy)
        except InvalidInputError as err:
            return refuse(err.code, err.message)
    if request.policy.size <= MAX_POLICY_BYTES:
        return None
    return refuse(
        ErrorCode.GATE_LIMIT,
        "a policy is larger than a gate holds",
        bytes=request.policy.size,
        bound=MAX_POLICY_BYTES,
    )

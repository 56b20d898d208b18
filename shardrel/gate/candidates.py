"""What a gate has to say of a root in one word. Pure. Source: schemas/SPEC.md#gate-state."""

from typing import Literal

from shardrel.gate.eligibility import Eligible, eligible
from shardrel.gate.facts import Evidence
from shardrel.records.gate import GateBody
from shardrel.records.policy import Policy

CandidateState = Literal["STAGED", "VERIFIED", "ADMITTED", "INVALID"]


def state_of(body: GateBody, root: str, evidence: Evidence, policy: Policy) -> CandidateState | None:
    """The state of a candidate, the same for every verb that shows one; None of a root that the gate doesn't know.

    Args:
        body: The gate's state.
        root: The root.
        evidence: What is attached to it; only that of a STAGED root is looked at.
        policy: Whose keys count.

    Returns:
        As recorded, and VERIFIED of a STAGED root that trusted reports carry to today's fences, approved or not.
    """
    candidate = body.candidates.get(root)
    if candidate is None or candidate.state != "STAGED":
        return None if candidate is None else candidate.state
    verdict = eligible(body, root, evidence, policy, ask_approvals=False)
    return "VERIFIED" if isinstance(verdict, Eligible) else "STAGED"

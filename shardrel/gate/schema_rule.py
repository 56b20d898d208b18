"""Which schema changes a policy lets a release have. Pure. Source: schemas/SPEC.md#schema-evolution

A root that was admitted once is not judged again: a policy binds what is verified under it, and rolls nothing back.
"""

from shardrel.errors import ErrorCode
from shardrel.gate.facts import Refuse, refuse
from shardrel.records.evolution import SchemaEvolution
from shardrel.records.gate import GateBody
from shardrel.records.policy import Policy


def judge(body: GateBody, policy: Policy, root: str | None, report: SchemaEvolution | None) -> Refuse | None:
    """What the policy has against a release, by its report of schema evolution.

    Args:
        body: The gate.
        policy: Its policy.
        root: The release; None where it is not written yet.
        report: As it was recomputed from both record schemas; None where the release names no previous root.

    Returns:
        ``evolution.absent``, ``evolution.previous-not-admitted``, ``evolution.change-not-allowed``, or None.
    """
    allowed = policy.schema_changes
    admitted = {name for name, candidate in body.candidates.items() if candidate.admitted is not None}
    if allowed is None or root in admitted:
        return None
    if report is None:
        return _absent() if admitted else None
    if admitted and report.previous not in admitted:
        return refuse(
            ErrorCode.EVOLUTION_PREVIOUS, "the policy asks for a comparison with a root that was admitted; name one with --previous",
            previous=report.previous,
        )  # fmt: skip
    wrong = sorted({change.kind for change in report.changes} - set(allowed))
    if wrong:
        return refuse(
            ErrorCode.EVOLUTION_CHANGE, "the policy does not allow such a change of the record schema; schemaChanges lists what it does",
            changes=", ".join(wrong),
        )  # fmt: skip
    return None


def _absent() -> Refuse:
    return refuse(
        ErrorCode.EVOLUTION_ABSENT, "the policy asks for a comparison of schemas; publish with --previous ROOT"
    )

"""What a decision rests on, as plain values; and what it comes to. Source: schemas/SPEC.md#transitions."""

from collections.abc import Mapping
from dataclasses import dataclass

from shardrel.errors import ErrorCode
from shardrel.records.descriptor import Descriptor
from shardrel.records.evolution import SchemaEvolution
from shardrel.records.gate import GateBody, Sweep
from shardrel.records.policy import Policy
from shardrel.records.report import Approval, Report
from shardrel.records.transition import Effects, GateRole


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenReport:
    """A report about the asked root, and the trusted verifier keys that signed it."""

    envelope: str
    key_ids: frozenset[str]
    report: Report


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenApproval:
    """An approval of the asked root, and the trusted approver keys that signed it."""

    envelope: str
    key_ids: frozenset[str]
    approval: Approval


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenProvenance:
    """A provenance of the asked root, and the trusted publisher keys that signed it."""

    envelope: str
    key_ids: frozenset[str]
    predicate: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenEvolution:
    """A report of schema evolution about the asked root, and the trusted publisher keys that signed it."""

    envelope: str
    key_ids: frozenset[str]
    report: SchemaEvolution


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What was read back of a fence log: the entries between ``previous`` and ``log``."""

    previous: Descriptor | None
    log: Descriptor
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that a rule may know besides the state and the request.

    Attributes:
        signers: Ids of the keys that sign the transition.
        root: The root that reports, approvals, provenance and evolutions are about.
        policy: The policy that a ``set-policy`` or an ``init`` would bring, validated.
        log: The part of the log that an advance would take, or that would be staged.
        rest: What is staged behind that part.
        run_recorded: Whether a run record lies under the run's id.
        cleared: Boundary of retention up to which nothing was condemned of what the request would name, since it was
            written.
    """

    signers: frozenset[str]
    root: str | None = None
    reports: tuple[SeenReport, ...] = ()
    approvals: tuple[SeenApproval, ...] = ()
    provenance: tuple[SeenProvenance, ...] = ()
    evolutions: tuple[SeenEvolution, ...] = ()
    policy: Policy | None = None
    log: LogFacts | None = None
    rest: LogFacts | None = None
    run_recorded: bool = False
    cleared: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    """The next body, what the move did, the role that its signers have, and the envelopes that it rests on."""

    body: GateBody
    effects: Effects
    role: GateRole
    attestations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """No, and why."""

    code: ErrorCode
    message: str
    context: Mapping[str, str | int | None]


def refuse(code: ErrorCode, message: str, **context: str | int | None) -> Refuse:
    """A refusal."""
    return Refuse(code=code, message=message, context=context)


def sweeping(sweep: Sweep) -> Refuse:
    """No, for objects are being deleted that might be written now."""
    return refuse(
        ErrorCode.RETENTION_SWEEP,
        "deletions are under way; run shardrel gc to finish them, with --abandon OWNER if that process is dead",
        owner=sweep.owner,
    )


def swept(body: GateBody, evidence: Evidence) -> Refuse | None:
    """No, if retention condemned something of what would be named, or it is not known whether it did."""
    boundary = body.retention.boundary
    if evidence.cleared == boundary:
        return None
    return refuse(
        ErrorCode.RETENTION_SWEPT,
        "gc took objects of it while it was written; run the same command again",
        boundary=boundary,
    )

"""Requests to a gate and the transition records that made them real.

Source: schemas/SPEC.md#transitions
"""

from typing import Annotated, Literal, Union

import msgspec

from shardrel.records.descriptor import Descriptor
from shardrel.records.fields import Count, DigestField, Name, Positive, ReasonCode, Record
from shardrel.records.gate import FenceKind, Staged
from shardrel.records.run import RunInput, Weight

GateRole = Literal["publisher", "releaser", "governor", "runner"]


class Assume(Record, frozen=True, kw_only=True):
    """What the caller takes for true of the gate; null assumes nothing. A false one is a refusal."""

    gate_id: Name | None = None
    generation: Count | None = None
    root: DigestField | None = None
    tombstone_watermark: Count | None = None
    benchmark_fence: Count | None = None


class _Request(Record, tag_field="kind", frozen=True, kw_only=True):
    assume: Assume = Assume()


class Init(_Request, tag="init", frozen=True, kw_only=True):
    """Create the gate."""

    gate_id: Name
    dataset: Name
    policy: Descriptor


class BeginPublication(_Request, tag="begin-publication", frozen=True, kw_only=True):
    """Pin a snapshot before the first byte is written."""

    publication: Name
    snapshot: DigestField


class EndPublication(_Request, tag="end-publication", frozen=True, kw_only=True):
    """Name the staged root (or null: given up) and drop the pin.

    Attributes:
        pin: Sequence at which the pin began; a later one of the same name is another's. Null takes any.
    """

    publication: Name
    root: DigestField | None
    pin: Positive | None = None


class Admit(_Request, tag="admit", frozen=True, kw_only=True):
    """Move an alias to a verified and approved root."""

    alias: Name
    root: DigestField


class Rollback(_Request, tag="rollback", frozen=True, kw_only=True):
    """Move an alias, at a higher generation, to a root that it pointed to before."""

    alias: Name
    root: DigestField


class StageFence(_Request, tag="stage-fence", frozen=True, kw_only=True):
    """Append entries behind a watermark, or behind what is staged there, and close nothing.

    Attributes:
        watermark: Where the fence stands, behind which they are staged.
        staged: The newest chunk that the caller saw staged; entries that do not follow it replace it.
    """

    fence: FenceKind
    watermark: Count
    first: Positive
    last: Positive
    previous: Descriptor | None
    log: Descriptor
    staged: Descriptor | None


class AdvanceFence(_Request, tag="advance-fence", frozen=True, kw_only=True):
    """Take a contiguous run of entries and close every permit bound to lower watermarks.

    Attributes:
        staged: The newest chunk that the caller saw staged.
        keep: What is staged behind these entries and stays so; null drops it.
    """

    fence: FenceKind
    first: Positive
    last: Positive
    previous: Descriptor | None
    log: Descriptor
    staged: Descriptor | None = None
    keep: Staged | None = None


class Revoke(_Request, tag="revoke", frozen=True, kw_only=True):
    """Make a root INVALID and close its permits; ``report`` is a FAILED report, where there is one."""

    root: DigestField
    reason: ReasonCode
    report: DigestField | None


class MixedAlias(Record, frozen=True, kw_only=True):
    """An alias of a mix; ``weight`` in millionths."""

    alias: Name
    weight: Weight


class StartRun(_Request, tag="start-run", frozen=True, kw_only=True):
    """Resolve the alias once and pin its root for the run's whole life.

    Attributes:
        inputs: Null for a run on the one alias; else all aliases of a mix, ``alias`` being the first.
    """

    run: Name
    alias: Name
    inputs: Annotated[tuple[MixedAlias, ...], msgspec.Meta(min_length=1, max_length=255)] | None = None


class RenewRun(_Request, tag="renew-run", frozen=True, kw_only=True):
    """Open a new permit for the run's own root at today's fences."""

    run: Name


class EndRun(_Request, tag="end-run", frozen=True, kw_only=True):
    """Finish or cancel a run."""

    run: Name
    outcome: Literal["finished", "cancelled"]


class AdmitCheckpoint(_Request, tag="admit-checkpoint", frozen=True, kw_only=True):
    """Make a commit record the head of its run."""

    run: Name
    generation: Count
    commit: DigestField
    parent: DigestField | None
    step: Count
    permit: str


class SetPolicy(_Request, tag="set-policy", frozen=True, kw_only=True):
    """Replace the policy; needs the governors of the old and of the new one.

    ``previous`` names the old one, so that a reader of the head can ask for both signatures.
    """

    policy: Descriptor
    previous: Descriptor


class Retire(_Request, tag="retire", frozen=True, kw_only=True):
    """Let go of what nothing pins, before the first deletion.

    Attributes:
        after: Sequence of the state that the plan was made of; any transition since refuses it.
        plan: What is condemned (``training.shard.sweep.v1``), ``objects`` of them.
        roots: Candidates that leave the gate's state.
        publications: Open ones that are given up.
        runs: Ended ones whose last checkpoint is given up.
        owner: The operation that deletes them.
    """

    after: Positive
    plan: Descriptor
    objects: Count
    roots: tuple[DigestField, ...]
    publications: tuple[Name, ...]
    runs: tuple[Name, ...]
    owner: Name


class EndSweep(_Request, tag="end-sweep", frozen=True, kw_only=True):
    """Everything that the plan at this boundary condemned is gone, or was reported as locked."""

    boundary: Positive


Request = Union[  # noqa: UP007 (one closed union for msgspec)
    Init,
    BeginPublication,
    EndPublication,
    Admit,
    Rollback,
    StageFence,
    AdvanceFence,
    Revoke,
    StartRun,
    RenewRun,
    EndRun,
    AdmitCheckpoint,
    SetPolicy,
    Retire,
    EndSweep,
]


class Effects(Record, frozen=True, kw_only=True):
    """What the transition did besides the obvious; derived by the rule, recorded for readers.

    Attributes:
        root, tombstone_watermark, benchmark_fence: What an opened permit is bound to, so that the answer
            of an operation and the record of a run can be made from the transition alone.
        inputs: The pinned releases of a run on a mix; null for any other.
    """

    generation: Positive | None = None
    root: DigestField | None = None
    opened_permit: str | None = None
    tombstone_watermark: Count | None = None
    benchmark_fence: Count | None = None
    closed_permits: tuple[str, ...] = ()
    inputs: tuple[RunInput, ...] | None = None


class Transition(Record, tag_field="schema", tag="training.shard.transition.v1", frozen=True, kw_only=True):
    """One accepted request: payload of a DSSE envelope by a key of ``role``.

    Attributes:
        parent: Digest of the previous transition's envelope, null for ``init``.
        attestations: Digests of the envelopes that the decision rests on.
        body: Digest of the canonical bytes of the gate body that it makes.
        recorded_at: The writer's clock, for people; no rule reads it.
    """

    gate_id: Name
    dataset: Name
    sequence: Positive
    parent: DigestField | None
    operation_id: Name
    request: Request
    request_digest: DigestField
    role: GateRole
    attestations: tuple[DigestField, ...]
    effects: Effects
    body: DigestField
    recorded_at: str


class Operation(Record, tag_field="schema", tag="training.shard.operation.v1", frozen=True, kw_only=True):
    """Create-only intent of one operation id: a retry walks from the head back to ``head`` at most."""

    operation_id: Name
    request_digest: DigestField
    head: DigestField | None

"""Gate state: the one mutable object of a dataset. Source: schemas/SPEC.md#gate-state"""

from typing import Literal

from shardrel.records.descriptor import Descriptor
from shardrel.records.fields import Count, DigestField, Name, Positive, ReasonCode, Record
from shardrel.records.run import RunInput

FenceKind = Literal["tombstones", "benchmarks"]


class Staged(Record, frozen=True, kw_only=True):
    """Entries that were appended behind a watermark and that no fence has taken yet."""

    watermark: Positive
    log: Descriptor


class Fence(Record, frozen=True, kw_only=True):
    """Watermark of a log and the descriptor of its newest chunk (null while it is empty).

    Attributes:
        staged: Where the next advance may lead, so that roots can be checked before it closes permits.
    """

    watermark: Count
    log: Descriptor | None
    staged: Staged | None = None


class Alias(Record, frozen=True, kw_only=True):
    """Where a name points. ``generation`` grows by one on every move and is never reused."""

    generation: Positive
    root: DigestField
    sequence: Positive


class Candidate(Record, frozen=True, kw_only=True):
    """A root the gate has heard of.

    Attributes:
        state: STAGED from publish, ADMITTED once an alias pointed to it, INVALID after a revocation.
        sequence: Of the transition that set ``state``; reports and approvals made before an
            invalidation do not lift it.
        reason: Why it is INVALID.
        admitted: Sequence at which it became ADMITTED last, also after a revocation; null where it never was.
    """

    state: Literal["STAGED", "ADMITTED", "INVALID"]
    sequence: Positive
    reason: ReasonCode | None
    admitted: Positive | None = None


class Permit(Record, frozen=True, kw_only=True):
    """Lets one publication or run proceed while both fences stand where they stood."""

    kind: Literal["publication", "run"]
    subject: Name
    root: DigestField
    generation: Positive
    tombstone_watermark: Count
    benchmark_fence: Count
    sequence: Positive


class Closed(Record, frozen=True, kw_only=True):
    """Why a run has no open permit."""

    by: Literal["tombstones", "benchmarks", "revoke"]
    watermark: Count | None
    sequence: Positive


class Head(Record, frozen=True, kw_only=True):
    """The newest admitted checkpoint of a run."""

    generation: Count
    commit: DigestField
    step: Count


class Run(Record, frozen=True, kw_only=True):
    """An open run. It leaves the state when it ends; its record and the log keep it.

    Attributes:
        sequence, tombstone_watermark, benchmark_fence: Of the gate when it started. With them the state vouches for
            all that the run's record says, and nobody has to read the history since.
        inputs: The pinned releases of a mix, the first of which ``alias``, ``root`` and ``generation`` repeat.
    """

    alias: Name
    root: DigestField
    generation: Positive
    permit: str | None
    closed: Closed | None
    head: Head | None
    sequence: Positive
    tombstone_watermark: Count = 0
    benchmark_fence: Count = 0
    inputs: tuple[RunInput, ...] | None = None

    @property
    def roots(self) -> tuple[str, ...]:
        """All roots that it pins, each once."""
        return (self.root,) if self.inputs is None else tuple(dict.fromkeys(one.root for one in self.inputs))


class Publication(Record, frozen=True, kw_only=True):
    """An unfinished publish: a pin on what it has written so far."""

    snapshot: DigestField
    sequence: Positive


class Sweep(Record, frozen=True, kw_only=True):
    """Deletions that are under way: what a plan condemned may be gone at any moment.

    Attributes:
        owner: Operation that deletes; another takes over only once somebody says that this one is dead.
    """

    owner: Name


class Retention(Record, frozen=True, kw_only=True):
    """How far retention has gone.

    Attributes:
        boundary: Sequence of the transition that condemned last: whoever has written since before it looks whether
            that was condemned.
        plan: The newest one, which need not have condemned anything.
        sweep: Null when all of what is condemned is deleted.
    """

    boundary: Count = 0
    plan: Descriptor | None = None
    sweep: Sweep | None = None


class GateBody(Record, frozen=True, kw_only=True):
    """Everything that a transition may look at or change, except the head."""

    gate_id: Name
    dataset: Name
    sequence: Positive
    policy: Descriptor
    tombstones: Fence
    benchmarks: Fence
    aliases: dict[str, Alias]
    candidates: dict[str, Candidate]
    permits: dict[str, Permit]
    runs: dict[str, Run]
    publications: dict[str, Publication]
    retention: Retention = Retention()


class GateState(Record, tag_field="schema", tag="training.shard.gate-state.v1", frozen=True, kw_only=True):
    """Body and the transition envelope that made it; the envelope names the body's digest.

    Attributes:
        head: Digest of the envelope, under which it is also stored.
        envelope: Its text, so that whoever reads the state can check the signature without another read.
        policy: The text of the policy that the body names, for the same reason.
    """

    body: GateBody
    head: DigestField
    envelope: str
    policy: str

"""Policy: who may say what about a dataset's releases. Source: schemas/SPEC.md#policy"""

from typing import Annotated, Literal

import msgspec

from shardrel.records.evolution import ChangeKind
from shardrel.records.fields import END, Count, Name, Positive, Record


class PublicKey(Record, frozen=True, kw_only=True):
    """A public key; ``public`` is the hex of its DER SubjectPublicKeyInfo. Its id is derived, never stored."""

    name: Name
    scheme: Literal["ed25519", "ecdsa-sha2-nistp256"]
    public: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2})+" + END, max_length=1024)]


class Role(Record, frozen=True, kw_only=True):
    """The keys of one role and how many distinct ones of them are needed."""

    keys: tuple[PublicKey, ...]
    threshold: Positive


class Roles(Record, frozen=True, kw_only=True):
    """publisher signs provenance, verifier reports, approver approvals.

    releaser signs admissions and rollbacks, governor fences, revocations and policies, runner runs
    and checkpoints.
    """

    publisher: Role
    verifier: Role
    approver: Role
    releaser: Role
    governor: Role
    runner: Role


class Policy(Record, tag_field="schema", tag="training.shard.policy.v1", frozen=True, kw_only=True):
    """The policy whose digest is in the gate.

    Attributes:
        separate_duties: No key may stand in two of publisher, verifier and approver.
        max_fence_step: Most entries that one advance may take (bounds a fast-forward).
        rollback_window: Generations of an alias that retention keeps.
        schema_changes: Kinds of change that a release's record schema may have against a root that was admitted, which
            its publisher then has to name; null asks for no comparison.
    """

    roles: Roles
    separate_duties: bool
    max_fence_step: Positive
    rollback_window: Count
    schema_changes: tuple[ChangeKind, ...] | None = None

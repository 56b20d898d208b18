"""Sweep plan: the objects that retention condemned. Source: schemas/SPEC.md#retention"""

from shardrel.records.descriptor import Descriptor, ObjectVersion
from shardrel.records.fields import DigestField, Name, Positive, Record


class Condemned(Record, frozen=True, kw_only=True):
    """One object at one exact version."""

    digest: DigestField
    version: ObjectVersion


class Unnamed(Record, frozen=True, kw_only=True):
    """One object that nothing retained led to and that stays for now.

    Attributes:
        since: Sequence of the state that it was first seen so in; whoever began to write behind it did not make it.
        snapshot: Whether it is a snapshot, which its owner may be about to publish.
        release: Whether it belonged to a root that retention let go of, so that no job is about to name it.
    """

    digest: DigestField
    version: ObjectVersion
    since: Positive
    snapshot: bool
    release: bool


class SweepPlan(Record, tag_field="schema", tag="training.shard.sweep.v1", frozen=True, kw_only=True):
    """Written before the transition that names it, and kept as a record of what was deleted.

    Attributes:
        after: Sequence of the state that it was made of.
        previous: The plan before it that condemned anything.
        unnamed: What may be condemned once everything that was open when it was first seen has ended.
    """

    dataset: Name
    gate_id: Name
    after: Positive
    previous: Descriptor | None
    objects: tuple[Condemned, ...]
    unnamed: tuple[Unnamed, ...]

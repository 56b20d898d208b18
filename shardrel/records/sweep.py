"""Sweep plan: the objects that retention condemned. Source: schemas/SPEC.md#retention"""

from shardrel.records.descriptor import ObjectVersion
from shardrel.records.fields import DigestField, Name, Positive, Record


class Condemned(Record, frozen=True, kw_only=True):
    """One object at one exact version."""

    digest: DigestField
    version: ObjectVersion


class SweepPlan(Record, tag_field="schema", tag="training.shard.sweep.v1", frozen=True, kw_only=True):
    """Written before the transition that names it, and kept as a record of what was deleted.

    Attributes:
        after: Sequence of the state that it was made of.
        snapshots: Declared and never published; one that the next plan finds so again is condemned there.
    """

    dataset: Name
    gate_id: Name
    after: Positive
    objects: tuple[Condemned, ...]
    snapshots: tuple[DigestField, ...]

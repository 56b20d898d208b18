"""Run record: what a training job is pinned to. Source: schemas/SPEC.md#run-record"""

from typing import Annotated

import msgspec

from shardrel.records.fields import Count, DigestField, Name, Positive, Record

MILLIONTHS = 1_000_000

Weight = Annotated[int, msgspec.Meta(ge=1, le=MILLIONTHS)]


class RunInput(Record, frozen=True, kw_only=True):
    """One pinned release of a run; ``weight`` is its share in a mix, in millionths."""

    alias: Name
    root: DigestField
    generation: Positive
    weight: Weight


class RunRecord(Record, tag_field="schema", tag="training.shard.run.v1", frozen=True, kw_only=True):
    """Written create-only under ``runs/<run>/record`` from the transition that admitted the run.

    Attributes:
        inputs: Null for a run on the single ``root``; the list of a mix otherwise.
        transition: Digest of the admitting transition's envelope.
    """

    run_id: Name
    dataset: Name
    gate_id: Name
    alias: Name
    root: DigestField
    generation: Positive
    permit: str
    tombstone_watermark: Count
    benchmark_fence: Count
    inputs: tuple[RunInput, ...] | None
    transition: DigestField

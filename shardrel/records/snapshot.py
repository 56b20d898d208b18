"""Snapshot and member index: the declared and the published membership.

Both are small records over sorted parts. Source: schemas/SPEC.md#snapshot, #member-index
"""

from typing import Annotated

import msgspec

from shardrel.records.descriptor import Descriptor
from shardrel.records.encryption import Encryption
from shardrel.records.fields import Count, DigestField, Name, Positive, Record


class Part(Record, frozen=True, kw_only=True):
    """One sorted run of member tuples; the parts of a record follow each other without overlap.

    Attributes:
        object: Parquet object of at most 64 MiB.
        records: Its tuples.
        last_sample_id: Sample id of its last tuple, which is the upper border of its range; sealed where the part
            is encrypted.
    """

    object: Descriptor
    records: Positive
    last_sample_id: str | None


class SplitTotals(Record, frozen=True, kw_only=True):
    """Totals of one split."""

    records: Count
    tokens: Count


class Columns(Record, frozen=True, kw_only=True):
    """Which source columns became tuple fields; null where a default rule applies."""

    id: str | None
    source: str | None
    version: str | None
    split: str | None


class Snapshot(Record, tag_field="schema", tag="training.shard.snapshot.v1", frozen=True, kw_only=True):
    """The membership that a dataset owner declared, with both watermarks.

    Attributes:
        member_set_digest: Over the leaves of all tuples in canonical order. A publisher that finds the very same
            leaves needs neither read the parts nor build the tree, whose blocks are ``block_roots``.
        block_roots: Root of the tree over each started block of 65,536 leaves, in order.
    """

    dataset: Name
    tombstone_watermark: Count
    benchmark_fence: Count
    record_schema: Descriptor
    parts: Annotated[tuple[Part, ...], msgspec.Meta(min_length=1)]
    member_set_digest: DigestField
    block_roots: Annotated[tuple[DigestField, ...], msgspec.Meta(min_length=1)]
    records: Positive
    tokens: Count
    splits: dict[str, SplitTotals]
    columns: Columns
    token_column: str | None
    text_columns: tuple[str, ...] | None
    encryption: Encryption | None = None


class MemberIndex(Record, tag_field="schema", tag="training.shard.member-index.v1", frozen=True, kw_only=True):
    """All tuples of a release in canonical order, each with the shard and the row that hold it.

    Attributes:
        block_roots: Root of the tree over each started block of 65,536 leaves, in order.
    """

    ordered_member_tuple_root: DigestField
    block_roots: Annotated[tuple[DigestField, ...], msgspec.Meta(min_length=1)]
    parts: Annotated[tuple[Part, ...], msgspec.Meta(min_length=1)]
    records: Positive

"""Root manifest: the one object whose digest names a whole release.

Source: schemas/SPEC.md#root-manifest
"""

from typing import Annotated, Literal

import msgspec

from shardrel.records.descriptor import Descriptor, MediaType, ObjectVersion
from shardrel.records.encryption import Encryption, ShardKey
from shardrel.records.fields import END, Count, DigestField, Name, Positive, Record
from shardrel.records.snapshot import SplitTotals

ShardId = Annotated[str, msgspec.Meta(pattern="^shard-[0-9]{5,9}-of-[0-9]{5,9}" + END)]


class Shard(Record, frozen=True, kw_only=True):
    """One shard: where its bytes are, and what they must decode to.

    Attributes:
        logical_digest: Of the ordered stream of its records' content digests.
        member_set_digest: Of its member tuples in canonical order.
        logical_bytes: Canonical record bytes, the bound of what decoding may yield.
        key: Null in a plain release.
    """

    id: ShardId
    media_type: MediaType
    digest: DigestField
    size: Positive
    object_version: ObjectVersion | None
    logical_digest: DigestField
    records: Count
    tokens: Count
    member_set_digest: DigestField
    logical_bytes: Count
    key: ShardKey | None


class Totals(Record, frozen=True, kw_only=True):
    """Sums over the shards, and by split."""

    shards: Positive
    records: Positive
    tokens: Count
    stored_bytes: Count
    logical_bytes: Count
    splits: dict[str, SplitTotals]


class ColumnEncoding(Record, frozen=True, kw_only=True):
    """How one leaf column of the Parquet files is written; follows a pure rule on the data."""

    path: str
    physical: Literal["native", "packed"]
    dictionary: bool
    encoding: Literal["PLAIN", "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "BYTE_STREAM_SPLIT"]


class Serializer(Record, frozen=True, kw_only=True):
    """Everything that decides the stored bytes of a shard for given records."""

    name: Literal["shardrel-parquet"]
    version: Positive
    library: str
    library_version: str
    format_version: Literal["2.6"]
    data_page_version: Literal["1.0", "2.0"]
    page_checksums: Literal[True]
    row_group_records: Positive
    columns: tuple[ColumnEncoding, ...]


class Compression(Record, frozen=True, kw_only=True):
    """Codec of the pages."""

    codec: Literal["zstd", "snappy", "gzip", "lz4", "none"]
    level: Annotated[int, msgspec.Meta(ge=-131_072, le=22)] | None


class Sharding(Record, frozen=True, kw_only=True):
    """How records were spread over shards and ordered inside of them."""

    function: Literal["tuple-splitmix64.v1"]
    shards: Positive
    seed: Count
    sort_key: Literal["member-tuple.v1"]


class Objects(Record, frozen=True, kw_only=True):
    """Descriptors of the records that the root's digests name."""

    snapshot: Descriptor
    record_schema: Descriptor
    member_index: Descriptor


class Release(Record, tag_field="schema", tag="training.shard.release.v1", frozen=True, kw_only=True):
    """The root manifest. Holds no time, no host and no measured choice."""

    dataset: Name
    dataset_snapshot: DigestField
    tombstone_watermark: Count
    benchmark_fence: Count
    record_schema: DigestField
    shards: Annotated[tuple[Shard, ...], msgspec.Meta(min_length=1)]
    totals: Totals
    ordered_member_tuple_root: DigestField
    objects: Objects
    serializer: Serializer
    compression: Compression
    sharding: Sharding
    token_column: str | None
    text_columns: tuple[str, ...] | None
    schema_evolution: Descriptor | None
    encryption: Encryption | None

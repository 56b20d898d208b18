"""Root manifest from what was written, and its content digest. Source: schemas/SPEC.md#root-manifest."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from shardrel.canonical import json
from shardrel.digest import Digest, digest_of
from shardrel.records.descriptor import Descriptor
from shardrel.records.encryption import Encryption
from shardrel.records.release import Compression, Objects, Release, Serializer, Shard, Sharding, Totals
from shardrel.records.snapshot import Snapshot, SplitTotals
from shardrel.store.objects import unversioned


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Everything that a publication wrote or decided before its root."""

    shards: Sequence[Shard]
    splits: dict[str, SplitTotals]
    ordered_root: Digest
    objects: Objects
    serializer: Serializer
    compression: Compression
    sharding: Sharding
    encryption: Encryption | None


def release_of(snapshot: Snapshot, written: Written) -> Release:
    """The root manifest."""
    return Release(
        dataset=snapshot.dataset,
        dataset_snapshot=Digest(written.objects.snapshot.digest),
        tombstone_watermark=snapshot.tombstone_watermark,
        benchmark_fence=snapshot.benchmark_fence,
        record_schema=written.objects.record_schema.digest,
        shards=tuple(written.shards),
        totals=_totals(written.shards, written.splits),
        ordered_member_tuple_root=written.ordered_root,
        objects=written.objects,
        serializer=written.serializer,
        compression=written.compression,
        sharding=written.sharding,
        token_column=snapshot.token_column,
        text_columns=snapshot.text_columns,
        schema_evolution=None,
        encryption=written.encryption,
    )


def content_digest(release: Release) -> Digest:
    """Digest of the manifest without object versions: equal in every store."""
    objects = Objects(
        snapshot=unversioned(release.objects.snapshot),
        record_schema=unversioned(release.objects.record_schema),
        member_index=unversioned(release.objects.member_index),
    )
    shards = tuple(replace(shard, object_version=None) for shard in release.shards)
    bare = replace(release, shards=shards, objects=objects, schema_evolution=_bare(release.schema_evolution))
    return digest_of(json.encode(bare))


def _bare(descriptor: Descriptor | None) -> Descriptor | None:
    return None if descriptor is None else unversioned(descriptor)


def _totals(shards: Sequence[Shard], splits: dict[str, SplitTotals]) -> Totals:
    return Totals(
        shards=len(shards),
        records=sum(shard.records for shard in shards),
        tokens=sum(shard.tokens for shard in shards),
        stored_bytes=sum(shard.size for shard in shards),
        logical_bytes=sum(shard.logical_bytes for shard in shards),
        splits=splits,
    )

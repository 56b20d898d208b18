"""From a manifest to the data keys of what it names. Source: schemas/SPEC.md#encryption"""

from dataclasses import dataclass

from shardrel.errors import ErrorCode, IntegrityError
from shardrel.records.release import Release, Shard
from shardrel.records.snapshot import Part, Snapshot
from shardrel.trust.key_encryption import INDEX, SNAPSHOT, DataKey, Place, Unlocked
from shardrel.trust.sealed_parts import PartsKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLock:
    """What one Parquet object is encrypted with."""

    data_key: DataKey
    aad_prefix: bytes


def shard_lock(release: Release, shard: Shard, unlocked: Unlocked) -> ShardLock | None:
    """What a shard is encrypted with; None where it is plain.

    Raises:
        RefusedError: ``encryption.reader``, ``encryption.key``, ``encryption.key-version``.
        IntegrityError: ``encryption.wrapped-key``, ``encryption.key-check``; ``encryption.reader`` for a shard
            with a key in a root that declares no encryption.
        UnavailableError: The KMS does not answer.
    """
    if release.encryption is None:
        if shard.key is not None:
            raise IntegrityError(
                ErrorCode.ENCRYPTION_READER, "a shard has a key and the root declares no encryption", shard=shard.id
            )
        return None
    place = _place(release, shard.id, release.encryption.key_version)
    return ShardLock(data_key=unlocked.data_key(release.encryption, shard.key, place), aad_prefix=place.aad_prefix())


def part_lock(parts_key: PartsKey, part: Part) -> ShardLock:
    """What a part whose border can be read is encrypted with."""
    return ShardLock(data_key=parts_key.data_key, aad_prefix=parts_key.aad_prefix(part.last_sample_id or ""))


def index_key(release: Release, unlocked: Unlocked) -> PartsKey | None:
    """The key of the member index's parts; None where they are plain. Raises as ``shard_lock``."""
    declared = release.encryption
    if declared is None or declared.parts_key is None:
        return None
    place = _place(release, INDEX, declared.key_version)
    return PartsKey(data_key=unlocked.data_key(declared, declared.parts_key, place), place=place)


def snapshot_key(snapshot: Snapshot, unlocked: Unlocked) -> PartsKey | None:
    """The key of a snapshot's parts; None where they are plain. Raises as ``shard_lock``."""
    declared = snapshot.encryption
    if declared is None:
        return None
    place = snapshot_place(snapshot.dataset, snapshot.record_schema.digest, declared.key_version)
    return PartsKey(data_key=unlocked.data_key(declared, declared.parts_key, place), place=place)


def snapshot_place(dataset: str, schema: str, key_version: str) -> Place:
    """What the parts of a snapshot are bound to; its digest is not known before they are written."""
    return Place(dataset=dataset, snapshot="", name=SNAPSHOT, schema=schema, key_version=key_version)


def _place(release: Release, name: str, key_version: str) -> Place:
    return Place(
        dataset=release.dataset,
        snapshot=release.dataset_snapshot,
        name=name,
        schema=release.record_schema,
        key_version=key_version,
    )

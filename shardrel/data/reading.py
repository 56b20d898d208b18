"""The parts of a snapshot, of a member index, and shards, opened from a store. Source: schemas/SPEC.md#member-index"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from shardrel.data.encryption import open_parquet
from shardrel.data.shards import shard_descriptor
from shardrel.errors import ErrorCode, IntegrityError
from shardrel.membership.bounds import PART_BYTES, PART_RECORDS
from shardrel.membership.columns import FIELDS
from shardrel.records.release import Release, Shard
from shardrel.records.snapshot import MemberIndex, Part, Snapshot
from shardrel.store.objects import get
from shardrel.store.port import Store
from shardrel.trust.key_encryption import Unlocked
from shardrel.trust.release_keys import ShardLock, index_key, part_lock, shard_lock, snapshot_key
from shardrel.trust.sealed_parts import PartsKey


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartKind:
    """The columns of a part with their types, and the code for one that is something else."""

    columns: dict[str, Any]
    wrong: ErrorCode


_DECLARED = _PartKind(
    columns={**dict.fromkeys(FIELDS, pa.string()), "content_digest": pa.binary(32)}, wrong=ErrorCode.SNAPSHOT_INVALID
)
_INDEXED = _PartKind(
    columns={"sample_id": pa.string(), "leaf": pa.binary(32), "shard": pa.uint32(), "row": pa.uint32()},
    wrong=ErrorCode.MEMBER_INDEX,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartList:
    """The parts of a snapshot or of a member index, ready to be read.

    Attributes:
        parts: With borders that can be read.
        read: Opens one of them, as a table.
    """

    parts: tuple[Part, ...]
    read: Callable[[Part], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the objects of a release are opened.

    Attributes:
        snapshot: The parts of a snapshot.
        index: The parts of a member index.
        shard: A shard, as an open Parquet file.
    """

    snapshot: Callable[[Snapshot], PartList]
    index: Callable[[MemberIndex, Release], PartList]
    shard: Callable[[Release, Shard], Any]


def stored_reading(store: Store, unlocked: Unlocked) -> Reading:
    """Objects as they lie in a store, plain or encrypted.

    Args:
        store: Where they are.
        unlocked: Keys of what is encrypted.
    """
    return Reading(
        snapshot=lambda snapshot: _part_list(store, snapshot.parts, _DECLARED, snapshot_key(snapshot, unlocked)),
        index=lambda index, release: _part_list(store, index.parts, _INDEXED, index_key(release, unlocked)),
        shard=lambda release, shard: _open_shard(store, shard, shard_lock(release, shard, unlocked)),
    )


def _part_list(store: Store, parts: tuple[Part, ...], kind: _PartKind, key: PartsKey | None) -> PartList:
    return PartList(
        parts=parts if key is None else key.opened(parts),
        # The neighbours of a member mostly are in its own part.
        read=lru_cache(maxsize=2)(lambda part: _read_part(store, part, kind, key)),
    )


def _read_part(store: Store, part: Part, kind: _PartKind, key: PartsKey | None) -> Any:
    if part.object.size > PART_BYTES or part.records > PART_RECORDS:
        raise IntegrityError(kind.wrong, "a part is larger than a part may be")
    lock = None if key is None else part_lock(key, part)
    file = open_parquet(get(store, part.object), lock, part.object.digest)
    if file.metadata.num_rows != part.records:
        raise IntegrityError(kind.wrong, "a part holds another number of members than it says")
    table = decoded(file.read)
    if dict(zip(table.schema.names, table.schema.types, strict=True)) != kind.columns or any(
        column.null_count for column in table.columns
    ):
        raise IntegrityError(kind.wrong, "a part has other columns than a part has")
    return table


def _open_shard(store: Store, shard: Shard, lock: ShardLock | None) -> Any:
    return open_parquet(get(store, shard_descriptor(shard)), lock, shard.id)


def decoded(read: Callable[[], Any]) -> Any:
    """A table of which every text is valid UTF-8.

    Raises:
        IntegrityError: ``parquet.structure``.
    """
    try:
        table = read()
        table.validate(full=True)
        return table
    except (pa.ArrowException, OSError, ValueError) as err:
        raise IntegrityError(ErrorCode.PARQUET_STRUCTURE, "an object of the release does not decode") from err

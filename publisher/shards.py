"""One shard: encode its records, create the object. Source: schemas/SPEC.md#shards."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from publisher.caps import MAX_LOGICAL, MAX_RECORDS, MAX_STORED, groups_within, within
from publisher.encode import encode_shard
from publisher.encryption import Encrypting
from publisher.gather import row_groups
from publisher.partition import shard_id
from publisher.scatter import Scattered
from publisher.stage import Staged, rows_of
from shardrel.canonical.sha import sha256_long
from shardrel.digest import Digest, Domain, to_digest, u64
from shardrel.membership.tuples import member_set
from shardrel.records.descriptor import PARQUET
from shardrel.records.encryption import ShardKey
from shardrel.records.release import Compression, Serializer, Shard
from shardrel.store.objects import put
from shardrel.store.port import Store

Records = npt.NDArray[np.int64]

# Beside their encodings, records have ids, and a file has a footer.
_ROOM_A_RECORD = 64
_ROOM = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedShard:
    """A shard's bytes, and what the manifest will say of its records."""

    data: memoryview
    id: str
    logical_digest: Digest
    records: int
    tokens: int
    member_set_digest: Digest
    logical_bytes: int
    key: ShardKey | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenShard:
    """A shard that is in the store, and whether it was there before."""

    shard: Shard
    already_present: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardEncoder:
    """Encodes the shards of one release; safe to share among threads.

    Attributes:
        staged: Who the records are; ``scattered`` holds them.
        by_shard: For each shard, its record numbers in canonical order.
        content_type: Of the record schema.
        encrypting: How shards are encrypted; None leaves them plain.
    """

    staged: Staged
    scattered: Scattered
    by_shard: tuple[Records, ...]
    content_type: bytes
    serializer: Serializer
    compression: Compression
    encrypting: Encrypting | None

    def encode(self, number: int) -> EncodedShard:
        """One shard.

        Raises:
            InvalidInputError: As ``row_groups``; ``input.invalid`` where the shard would pass a cap.

        Effects: stores the wrapped key of a shard that is encrypted.
        """
        records = self.by_shard[number]
        logical_bytes = int(self.staged.lengths.take(records).sum())
        within("records", len(records), MAX_RECORDS)
        within("logical bytes", logical_bytes, MAX_LOGICAL)
        digests, leaves = (rows_of(facts, records) for facts in (self.staged.digests, self.staged.leaves))
        name = shard_id(number, len(self.by_shard))
        key, encryption = (None, None) if self.encrypting is None else self.encrypting.shard(name)
        room = logical_bytes + len(records) * _ROOM_A_RECORD + _ROOM
        groups = partial(self._groups, number)
        data = memoryview(encode_shard(groups, self.serializer, self.compression, room, encryption))
        within("stored bytes", len(data), MAX_STORED)
        stream = Domain.STREAM.value + self.content_type + u64(len(records)), digests.reshape(-1).data
        logical, members = sha256_long([stream, member_set(leaves)])
        return EncodedShard(
            data=data,
            id=name,
            logical_digest=to_digest(logical),
            records=len(records),
            tokens=int(self.staged.tokens.take(records).sum()),
            member_set_digest=to_digest(members),
            logical_bytes=logical_bytes,
            key=key,
        )

    def _groups(self, number: int) -> Iterator[Any]:
        records = self.by_shard[number]
        return groups_within(row_groups(self.scattered, number, records, self.serializer.row_group_records))


def create_shard(store: Store, encoded: EncodedShard) -> WrittenShard:
    """Create one shard.

    Effects: One object by its digest; a crash leaves it or nothing.
    """
    descriptor, already = put(store, encoded.data, PARQUET)
    shard = Shard(
        id=encoded.id,
        media_type=PARQUET,
        digest=descriptor.digest,
        size=descriptor.size,
        object_version=descriptor.object_version,
        logical_digest=encoded.logical_digest,
        records=encoded.records,
        tokens=encoded.tokens,
        member_set_digest=encoded.member_set_digest,
        logical_bytes=encoded.logical_bytes,
        key=encoded.key,
    )
    return WrittenShard(shard=shard, already_present=already)

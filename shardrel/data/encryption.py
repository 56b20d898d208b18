"""Opening shards that may be encrypted. Source: schemas/SPEC.md#encryption"""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as parquet

from shardrel.errors import ErrorCode, IntegrityError
from shardrel.records.release import Release, Shard
from shardrel.trust.key_encryption import Unlocked
from shardrel.trust.release_keys import ShardLock, shard_lock

_PLAIN = b"PAR1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseLocks:
    """What the shards of a release are encrypted with, asked for when one is opened. Its repr shows no key."""

    release: Release = field(repr=False)
    unlocked: Unlocked = field(repr=False)

    def of(self, shard: Shard) -> ShardLock | None:
        """None where the shard is plain.

        Raises:
            ShardrelError: ``encryption.…``, as ``shardrel.trust.release_keys.shard_lock``.
        """
        return shard_lock(self.release, shard, self.unlocked)


def open_parquet(data: bytes, lock: ShardLock | None, subject: str, **options: Any) -> Any:
    """A ``ParquetFile`` over checked bytes, page checksums verified.

    Args:
        data: Bytes whose size and digest were checked.
        lock: What they are encrypted with; a plain file is then refused.
        subject: Shard id or such, for errors.
        options: More for ``ParquetFile``.

    Raises:
        IntegrityError: ``encryption.plaintext``, ``encryption.aad``, ``parquet.structure``.
    """
    decryption = None
    if lock is not None:
        if _PLAIN in (data[:4], data[-4:]):
            raise IntegrityError(
                ErrorCode.ENCRYPTION_PLAINTEXT, "an object is plain, and declared to be encrypted", shard=subject
            )
        decryption = parquet.create_decryption_properties(
            lock.data_key.key, aad_prefix=lock.aad_prefix, allow_plaintext_files=False
        )
    try:
        return pq.ParquetFile(
            pa.BufferReader(data), decryption_properties=decryption, page_checksum_verification=True, **options
        )
    except (pa.ArrowException, OSError) as err:
        if lock is None:
            raise IntegrityError(ErrorCode.PARQUET_STRUCTURE, "an object is not a Parquet file", shard=subject) from err
        raise IntegrityError(
            ErrorCode.ENCRYPTION_AAD, "an object was encrypted for another place, or was changed", shard=subject
        ) from err

"""The declared membership that a publication starts from. Source: schemas/SPEC.md#snapshot."""

from dataclasses import dataclass

import pyarrow as pa
from msgspec.structs import replace

from shardrel.canonical import json
from shardrel.data.encryption import open_parquet
from shardrel.digest import raw_digest
from shardrel.errors import ErrorCode, IntegrityError
from shardrel.membership.columns import FIELDS, Members, from_table
from shardrel.records.descriptor import Descriptor
from shardrel.records.schema import RecordSchema
from shardrel.records.snapshot import Snapshot
from shardrel.store.objects import find_record, get
from shardrel.store.port import Store
from shardrel.trust.key_encryption import SNAPSHOT, Unlocked
from shardrel.trust.release_keys import part_lock, snapshot_key
from shardrel.trust.sealed_parts import PartsKey

_REPEATED = list(FIELDS[1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A snapshot and its record schema, with the versions that this store gave them.

    Attributes:
        snapshot: Its parts have borders that can be read.
        parts_key: Of parts that are encrypted.
    """

    store: Store
    snapshot: Snapshot
    record_schema: RecordSchema
    snapshot_object: Descriptor
    schema_object: Descriptor
    parts_key: PartsKey | None

    @property
    def schema_digest(self) -> bytes:
        """Schema digest of every member, 32 bytes."""
        return raw_digest(self.schema_object.digest)

    @property
    def borders(self) -> list[str]:
        """Last sample id of each part."""
        return [part.last_sample_id or "" for part in self.snapshot.parts]

    def members(self, part: int) -> Members:
        """Members that one part declares.

        Raises:
            IntegrityError: ``snapshot.invalid`` when the part is no table of members; ``parquet.structure``,
                ``encryption.plaintext``, ``encryption.aad``; what reading it raises.
        """
        listed = self.snapshot.parts[part]
        data = get(self.store, listed.object)
        lock = None if self.parts_key is None else part_lock(self.parts_key, listed)
        file = open_parquet(data, lock, SNAPSHOT, read_dictionary=_REPEATED)
        try:
            return from_table(file.read())
        except (pa.ArrowException, OSError, KeyError) as err:
            raise IntegrityError(
                ErrorCode.SNAPSHOT_INVALID, "a part of the snapshot is not a table of members", part=part
            ) from err


def read_declared(store: Store, snapshot_digest: str, unlocked: Unlocked) -> Declared:
    """Read and check a snapshot and its record schema.

    Args:
        store: Where they are.
        snapshot_digest: Of the snapshot.
        unlocked: Keys of a snapshot that is encrypted.

    Raises:
        RefusedError: ``encryption.reader``, ``encryption.key``, ``encryption.key-version``.
        NotFoundError: ``storage.object-absent``.
        IntegrityError, FormatError: When bytes are not what their digest or their kind promises.
    """
    snapshot_object, data = find_record(store, snapshot_digest)
    snapshot = json.decode(data, Snapshot)
    parts_key = snapshot_key(snapshot, unlocked)
    if parts_key is not None:
        snapshot = replace(snapshot, parts=parts_key.opened(snapshot.parts))
    schema_object, data = find_record(store, snapshot.record_schema.digest)
    return Declared(
        store=store,
        snapshot=snapshot,
        record_schema=json.decode(data, RecordSchema),
        snapshot_object=snapshot_object,
        schema_object=schema_object,
        parts_key=parts_key,
    )

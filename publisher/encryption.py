"""Encrypting a release: a fresh data key an object, stored wrapped before the object is. Source: schemas/SPEC.md#encryption"""

from dataclasses import dataclass
from typing import Any

import pyarrow.parquet.encryption as parquet

from shardrel.canonical import json
from shardrel.errors import ErrorCode, IntegrityError
from shardrel.records.encryption import Encryption, ShardKey, WrappedKey
from shardrel.store.layout import wrapped_key_key
from shardrel.store.objects import settle_create
from shardrel.store.port import Conflict, Store
from shardrel.trust.key_encryption import (
    INDEX,
    DataKey,
    KeyEncryption,
    Place,
    declaration,
    new_data_key,
    unlock,
    version_of,
)
from shardrel.trust.sealed_parts import PartsKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Encrypting:
    """How one publication encrypts; safe to share among threads.

    Attributes:
        publication: Its name, under which wrapped keys are kept.
        index: Whether the parts of the member index are encrypted too.
    """

    store: Store
    key: KeyEncryption
    publication: str
    dataset: str
    snapshot: str
    schema: str
    index: bool

    def place(self, name: str) -> Place:
        """What the data key of an object is bound to."""
        return Place(
            dataset=self.dataset,
            snapshot=self.snapshot,
            name=name,
            schema=self.schema,
            key_version=version_of(self.key),
        )

    def data_key(self, name: str) -> DataKey:
        """The data key of an object: the one that an earlier run stored, else a fresh one that is stored now.

        Raises:
            IntegrityError: ``encryption.wrapped-key``, ``encryption.key-check`` when what is stored is not ours.
            OutcomeUnknownError: ``outcome-unknown.create``.

        Effects: one create of the wrapped key.
        """
        place, at = self.place(name), wrapped_key_key(self.dataset, self.publication, name)
        stored = self.store.read(at, max_bytes=json.MAX_RECORD_BYTES)
        if stored is None:
            fresh = new_data_key(self.key, place)
            outcome = self.store.create(at, json.encode(self._record(place, fresh.record)))
            if not isinstance(outcome, Conflict):
                settle_create(outcome, at)
                return fresh
            # Another run of this publication was first; its key is as good.
            stored = self.store.read(at, max_bytes=json.MAX_RECORD_BYTES)
            assert stored is not None  # a name that is created stays
        record = json.decode(stored.data, WrappedKey)
        if self._record(place, record.key) != record:
            raise IntegrityError(ErrorCode.ENCRYPTION_WRAPPED_KEY, "the stored key is one of another object", key=at)
        return unlock(record, [self.key], record.key, place)

    def shard(self, name: str) -> tuple[ShardKey, Any]:
        """What the manifest holds of a shard's key, and ``FileEncryptionProperties`` to write the shard with.

        Effects: as ``data_key``.
        """
        key = self.data_key(name)
        return key.record, encryption_properties(key, self.place(name).aad_prefix())

    def index_key(self) -> PartsKey | None:
        """The data key of the member index's parts; None where they stay plain.

        Effects: as ``data_key``.
        """
        return PartsKey(data_key=self.data_key(INDEX), place=self.place(INDEX)) if self.index else None

    def declared(self, index_key: PartsKey | None) -> Encryption:
        """What the root manifest says."""
        return declaration(self.key, None if index_key is None else index_key.data_key.record)

    def _record(self, place: Place, key: ShardKey) -> WrappedKey:
        return WrappedKey(
            dataset=place.dataset,
            dataset_snapshot=place.snapshot,
            shard=place.name,
            record_schema=place.schema,
            key_version=place.key_version,
            key_fingerprint=self.key.fingerprint,
            key=key,
        )


def encryption_properties(data_key: DataKey, aad_prefix: bytes) -> Any:
    """For a Parquet writer: everything encrypted, footer too, under one key; the prefix is not stored."""
    return parquet.create_encryption_properties(
        data_key.key,
        aad_prefix=aad_prefix,
        store_aad_prefix=False,
        encryption_algorithm="AES_GCM_V1",
        plaintext_footer=False,
    )

"""What is stored about encryption: never a key, only wrapped ones. Source: schemas/SPEC.md#encryption"""

from typing import Literal

from shardrel.records.fields import DigestField, Name, Record


class ShardKey(Record, frozen=True, kw_only=True):
    """A wrapped data key and a value that tells whether it unwrapped well, both in hexadecimal."""

    wrapped: str
    check: str


class Encryption(Record, frozen=True, kw_only=True):
    """Parquet Modular Encryption of what a record names.

    Attributes:
        key_version: Of the key-encryption key.
        key_fingerprint: Digest that names the key-encryption key and says nothing of it.
        parts_key: Data key of the parts of the member index (in a root manifest) or of the snapshot (in a snapshot);
            null where they are plain.
    """

    scheme: Literal["parquet-modular-encryption.v1"]
    key_version: str
    key_fingerprint: DigestField
    parts_key: ShardKey | None


class WrappedKey(Record, tag_field="schema", tag="training.shard.wrapped-key.v1", frozen=True, kw_only=True):
    """The data key of one object of a publication, stored before the object.

    Attributes:
        shard: Shard id, or ``member-index``.
    """

    dataset: Name
    dataset_snapshot: DigestField
    shard: Name
    record_schema: DigestField
    key_version: str
    key_fingerprint: DigestField
    key: ShardKey

"""Descriptor: how one object refers to another. Source: schemas/SPEC.md#descriptor"""

from typing import Annotated

import msgspec

from shardrel.records.fields import END, Count, DigestField, Record

PARQUET = "application/vnd.apache.parquet"
RECORD_JSON = "application/vnd.shardrel.record+json"
ENVELOPE_JSON = "application/vnd.dsse.envelope.v1+json"
TENSOR_BYTES = "application/vnd.shardrel.tensor"

MediaType = Annotated[str, msgspec.Meta(pattern="^[a-z]+/[a-z0-9.+-]+" + END, max_length=127)]
ObjectVersion = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class Descriptor(Record, frozen=True, kw_only=True):
    """Names the exact bytes of one stored object.

    Attributes:
        media_type: What the bytes are.
        digest: SHA-256 of the stored bytes.
        size: Stored bytes; a reader reads no more than this before it hashes.
        object_version: The store's own version of the bytes; null where the digest-addressed key
            alone identifies them (records that must be equal across stores).
    """

    media_type: MediaType
    digest: DigestField
    size: Count
    object_version: ObjectVersion | None = None

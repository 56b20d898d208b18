"""Digest-addressed objects over the store port: write once, read back checked.

Source: schemas/SPEC.md#descriptor, #store
"""

from typing import TypeVar

from shardrel.canonical import json
from shardrel.digest import Digest, digest_of
from shardrel.errors import (
    ErrorCode,
    FormatError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
)
from shardrel.records.descriptor import RECORD_JSON, Descriptor
from shardrel.records.fields import Record
from shardrel.store.layout import object_key
from shardrel.store.port import AlreadyPresent, Conflict, CreateOutcome, ObjectKey, Store, Stored, Unknown, Written

R = TypeVar("R", bound=Record)


def settle_create(outcome: CreateOutcome, key: ObjectKey) -> str:
    """Version of bytes that are now there.

    Raises:
        IntegrityError: ``storage.digest-mismatch``: other bytes are under the key.
        OutcomeUnknownError: ``outcome-unknown.create``.
    """
    match outcome:
        case Written(version=version) | AlreadyPresent(version=version):
            return version
        case Conflict():
            raise IntegrityError(
                ErrorCode.STORAGE_DIGEST, "a create-only key holds other bytes; quarantine the store", key=key
            )
        case Unknown(reason=reason):
            raise OutcomeUnknownError(
                ErrorCode.OUTCOME_CREATE,
                "it is not known whether a write landed; run the same command again",
                key=key,
                reason=reason,
            )


def put(store: Store, data: bytes | memoryview, media_type: str) -> tuple[Descriptor, bool]:
    """Create the object of these bytes.

    Returns:
        Its descriptor, with the store's version, and whether it was there before.

    Effects: one create; a crash leaves the object or nothing.
    """
    digest = digest_of(data)
    key = object_key(digest)
    outcome = store.create(key, data)
    version = settle_create(outcome, key)
    descriptor = Descriptor(media_type=media_type, digest=digest, size=len(data), object_version=version)
    return descriptor, isinstance(outcome, AlreadyPresent)


def put_record(store: Store, record: Record) -> Descriptor:
    """Create the object of a record's canonical bytes.

    Raises:
        InvalidInputError: ``input.invalid`` where no reader would take so many.

    Effects: one create.
    """
    data = json.encode(record)
    if len(data) > record.MAX_BYTES:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID,
            f"a record would have {len(data)} bytes, at most are {record.MAX_BYTES}; let it list fewer things",
            record=type(record).__name__,
        )
    return put(store, data, RECORD_JSON)[0]


def unversioned(descriptor: Descriptor) -> Descriptor:
    """The descriptor as records hold it whose digest must be equal in every store."""
    return Descriptor(media_type=descriptor.media_type, digest=descriptor.digest, size=descriptor.size)


def get(store: Store, descriptor: Descriptor) -> bytes:
    """Read exactly what a descriptor names, checked.

    Raises:
        NotFoundError: ``storage.object-absent``.
        IntegrityError: ``storage.size-mismatch``, ``storage.digest-mismatch``, ``storage.too-large``.
    """
    data = get_unhashed(store, descriptor)
    check_digest(digest_of(data), descriptor)
    return data


def get_unhashed(store: Store, descriptor: Descriptor) -> bytes:
    """``get`` without the digest, for a caller who computes those of several objects together and checks them all.

    Raises:
        NotFoundError: ``storage.object-absent``.
        IntegrityError: ``storage.size-mismatch``, ``storage.too-large``.
    """
    key = object_key(descriptor.digest)
    stored = store.read(key, max_bytes=descriptor.size, version=descriptor.object_version)
    if stored is None:
        raise NotFoundError(ErrorCode.STORAGE_ABSENT, "an object is absent at its exact version", key=key)
    if len(stored.data) != descriptor.size:
        raise IntegrityError(
            ErrorCode.STORAGE_SIZE,
            "an object has another size than its descriptor says",
            key=key,
            size=len(stored.data),
            expected=descriptor.size,
        )
    return stored.data


def check_digest(digest: Digest, descriptor: Descriptor) -> None:
    """What ``get_unhashed`` left to its caller.

    Raises:
        IntegrityError: ``storage.digest-mismatch``.
    """
    if digest != descriptor.digest:
        key = object_key(descriptor.digest)
        raise IntegrityError(ErrorCode.STORAGE_DIGEST, "an object's bytes have another digest", key=key)


def get_by_digest(store: Store, digest: str, *, max_bytes: int = json.MAX_RECORD_BYTES) -> bytes:
    """Read an object of which only the digest is known, such as a root that a person named.

    Raises:
        NotFoundError: ``storage.object-absent``.
        IntegrityError: ``storage.digest-mismatch``, ``storage.too-large``.
    """
    return _by_digest(store, digest, max_bytes).data


def find_record(store: Store, digest: str) -> tuple[Descriptor, bytes]:
    """A record's bytes by its digest, and its descriptor with the version that this store gave it.

    Raises:
        NotFoundError, IntegrityError: As ``get_by_digest``.
    """
    stored = _by_digest(store, digest, json.MAX_RECORD_BYTES)
    size = len(stored.data)
    return Descriptor(media_type=RECORD_JSON, digest=digest, size=size, object_version=stored.version), stored.data


def _by_digest(store: Store, digest: str, max_bytes: int) -> Stored:
    key = object_key(digest)
    stored = store.read(key, max_bytes=max_bytes)
    if stored is None:
        raise NotFoundError(ErrorCode.STORAGE_ABSENT, "there is no object with this digest", key=key)
    if digest_of(stored.data) != digest:
        raise IntegrityError(ErrorCode.STORAGE_DIGEST, "an object's bytes have another digest", key=key)
    return stored


def get_record(store: Store, descriptor: Descriptor, kind: type[R]) -> R:
    """Read, check and decode a record.

    Raises:
        FormatError: ``format.too-large`` for a descriptor of more bytes than a record may have, unread; and what
            decoding raises.
        NotFoundError, IntegrityError: As ``get``.
    """
    if descriptor.size > kind.MAX_BYTES:
        raise FormatError(ErrorCode.FORMAT_TOO_LARGE, "a record is larger than a record may be", size=descriptor.size)
    return json.decode(get(store, descriptor), kind, max_bytes=max(descriptor.size, 1))

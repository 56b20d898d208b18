"""Digests and their domains. Source: schemas/SPEC.md#digests

A digest is written ``sha256:<64 lower-case hex>`` in records and used as 32 raw bytes in hashed
structures. Every hashed structure that is not a whole stored object begins with the 16 bytes of
its domain, so that a value of one kind can never stand in for a value of another.
"""

import hashlib
import re
from enum import Enum
from typing import NewType

from shardrel.errors import ErrorCode, FormatError

Digest = NewType("Digest", str)

_PATTERN = re.compile(r"sha256:[0-9a-f]{64}")


class Domain(Enum):
    """The 16-byte prefixes, ``shardrel/<kind>`` padded with NUL bytes."""

    RECORD = b"shardrel/record\0"
    TYPE = b"shardrel/type\0\0\0"
    ORIGIN = b"shardrel/origin\0"
    TUPLE = b"shardrel/tuple\0\0"
    NODE = b"shardrel/node\0\0\0"
    ROOT = b"shardrel/root\0\0\0"
    STREAM = b"shardrel/stream\0"
    MEMBER = b"shardrel/member\0"
    TEXT = b"shardrel/text\0\0\0"
    NGRAM = b"shardrel/ngram\0\0"
    SEED = b"shardrel/seed\0\0\0"
    ORDER = b"shardrel/order\0\0"
    LEDGER = b"shardrel/ledger\0"
    ID = b"shardrel/id\0\0\0\0\0"


def digest_of(data: bytes | bytearray | memoryview) -> Digest:
    """Digest of a whole stored object: SHA-256 of its bytes, without a domain."""
    return Digest("sha256:" + hashlib.sha256(data).hexdigest())


def domain_hash(domain: Domain, *parts: bytes | memoryview) -> bytes:
    """SHA-256 over the domain and the parts, 32 raw bytes. The caller makes the parts injective."""
    state = hashlib.sha256(domain.value)
    for part in parts:
        state.update(part)
    return state.digest()


def u64(value: int) -> bytes:
    """Eight bytes, little-endian."""
    return value.to_bytes(8, "little")


def lp(data: bytes) -> bytes:
    """Length-prefixed bytes: u64 length, then the bytes."""
    return u64(len(data)) + data


def to_digest(raw: bytes) -> Digest:
    """The written form of 32 raw bytes."""
    if len(raw) != 32:
        raise ValueError("a digest has 32 bytes")
    return Digest("sha256:" + raw.hex())


def parse_digest(text: str) -> Digest:
    """Check the written form.

    Raises:
        FormatError: ``format.not-a-record`` when it isn't ``sha256:`` and 64 lower-case hex digits.
    """
    if not _PATTERN.fullmatch(text):
        raise FormatError(ErrorCode.FORMAT_NOT_A_RECORD, "a digest is sha256: and 64 lower-case hex digits")
    return Digest(text)


def raw_digest(digest: str) -> bytes:
    """The 32 raw bytes of a written digest."""
    return bytes.fromhex(parse_digest(digest)[7:])

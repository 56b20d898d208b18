"""AES-256-GCM as every encrypted thing here uses it: a fresh nonce, then ciphertext and tag. Source: schemas/SPEC.md#encryption"""

import hmac
import os
from collections.abc import Iterator
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from shardrel.digest import Domain, lp, u64

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
CHUNK_BYTES = 16 << 20


class TagError(ValueError):
    """The key is another one, or the bytes or what they are bound to were changed. Names neither."""


def fresh_key() -> bytes:
    """A new key of 256 bits."""
    return AESGCM.generate_key(8 * KEY_BYTES)


def encrypt(key: bytes, data: bytes, bound_to: bytes) -> bytes:
    """Nonce, ciphertext and tag; opens only under the same key and ``bound_to``."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, data, bound_to)


class Opener:
    """Opens what was encrypted under one key; cheap for many small pieces."""

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def open(self, sealed: bytes | memoryview, bound_to: bytes) -> bytes:
        """The data.

        Raises:
            TagError: The tag does not verify, or there are too few bytes for one.
        """
        if len(sealed) < NONCE_BYTES + TAG_BYTES:
            raise TagError("too few bytes")
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound_to)
        except InvalidTag:
            # The cause would say nothing more.
            raise TagError("the tag does not verify") from None


def decrypt(key: bytes, sealed: bytes | memoryview, bound_to: bytes) -> bytes:
    """The data of one sealed piece.

    Raises:
        TagError: As ``Opener.open``.
    """
    return Opener(key).open(sealed, bound_to)


def check_value(key: bytes, message: bytes) -> str:
    """HMAC-SHA-256 in hex: tells whether a key is the right one, and says nothing of it."""
    return hmac.new(key, message, sha256).hexdigest()


def same(one: str, other: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(one.encode(), other.encode())


def derived(key: bytes, label: bytes) -> bytes:
    """A key for another use than the one that it is derived from."""
    return hmac.new(key, Domain.ID.value + lp(b"derived-key") + label, sha256).digest()


def encrypt_chunks(key: bytes, data: bytes | memoryview, bound_to: bytes) -> Iterator[bytes]:
    """Large data in pieces, each bound to its place and the last one to being that."""
    view, cipher = memoryview(data).cast("B"), AESGCM(key)
    starts = range(0, max(len(view), 1), CHUNK_BYTES)
    for number, start in enumerate(starts):
        nonce = os.urandom(NONCE_BYTES)
        place = _place(bound_to, number, last=number == len(starts) - 1)
        yield nonce + cipher.encrypt(nonce, view[start : start + CHUNK_BYTES], place)


def decrypt_chunks(key: bytes, sealed: bytes | memoryview, bound_to: bytes) -> bytearray:
    """The data of all pieces.

    Raises:
        TagError: A piece was changed, is missing, or stands elsewhere.
    """
    view, opener, out = memoryview(sealed).cast("B"), Opener(key), bytearray()
    step = NONCE_BYTES + CHUNK_BYTES + TAG_BYTES
    starts = range(0, max(len(view), 1), step)
    for number, start in enumerate(starts):
        with view[start : start + step] as piece:
            out += opener.open(piece, _place(bound_to, number, last=number == len(starts) - 1))
    view.release()
    return out


def _place(bound_to: bytes, number: int, *, last: bool) -> bytes:
    return lp(bound_to) + u64(number) + bytes([last])

"""AES-256-GCM as every encrypted thing here uses it: a fresh nonce, then ciphertext and tag. Source: schemas/SPEC.md#encryption"""

import hmac
import os
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16


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
            return self._cipher.decrypt(bytes(sealed[:NONCE_BYTES]), bytes(sealed[NONCE_BYTES:]), bound_to)
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

"""The signer port: whatever can sign for one public key (a local file, later a KMS)."""

from typing import Protocol

from shardrel.records.policy import PublicKey


class Signer(Protocol):
    """Signs bytes for one key."""

    @property
    def public(self) -> PublicKey:
        """The key that verifies what this signs."""
        ...

    def sign(self, data: bytes) -> bytes:
        """Signature over exactly these bytes."""
        ...

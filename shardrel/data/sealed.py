"""Decoded shards of encrypted releases: on a host's disk they are ciphertext. Source: schemas/SPEC.md#encryption"""

from typing import Any, BinaryIO

import pyarrow as pa

from shardrel.digest import Domain, domain_hash, lp
from shardrel.trust import aead
from shardrel.trust.release_keys import ShardLock

_LABEL = b"decoded-columns"


class SealedEntry:
    """One entry of a host's cache under a key that the shard's data key decides.

    Args:
        lock: What the shard is encrypted with.
        decoded: Name that its decoded entry would have.
    """

    def __init__(self, lock: ShardLock, decoded: str) -> None:
        self.name = domain_hash(Domain.ID, lp(_LABEL), bytes.fromhex(decoded)).hex()
        self._key = aead.derived(lock.data_key.key, _LABEL)

    def write(self, file: BinaryIO, body: Any) -> None:
        """Seal a buffer into a file."""
        for chunk in aead.encrypt_chunks(self._key, memoryview(body), self.name.encode()):
            file.write(chunk)

    def read(self, sealed: Any) -> Any:
        """The buffer, in memory; None where the bytes are not those that were written."""
        try:
            with memoryview(sealed) as view:
                return pa.py_buffer(aead.decrypt_chunks(self._key, view, self.name.encode()))
        except aead.TagError:
            return None

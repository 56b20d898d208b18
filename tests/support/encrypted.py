"""Encrypted releases of 60 records in two shards, whose manifests a test may change at any depth."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace as changed

from publisher.encryption import encryption_properties
from publisher.options import PublishOptions
from publisher.publish import World as PublishWorld
from publisher.publish import publish
from publisher.snapshot import SnapshotOptions, make_snapshot
from shardrel.gate.view import read_gate
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_by_digest
from shardrel.trust.aead import fresh_key
from shardrel.trust.key_encryption import KeyEncryption, Unlocked
from shardrel.trust.key_files import FileKey
from shardrel.trust.release_keys import ShardLock, shard_lock
from tests.support.publishing import ID_COLUMNS, NO_FENCES, NOW, Publishing, records_table, write_source
from tests.support.release_builder import RECORDS, Built, a_world, copied
from verifier.verify import VerifyResult, verify_release


def a_key(version: str = "1") -> FileKey:
    """A key-encryption key that lies in no file."""
    return FileKey(version=version, key=fresh_key())


def encrypted_snapshot(made: Publishing, source: Path, key: KeyEncryption) -> str:
    """Declare a source, in encrypted parts."""
    options = SnapshotOptions(dataset=made.dataset, columns=ID_COLUMNS, token_column="tokens", encrypt=key)
    nothing = {"tombstones": NO_FENCES, "benchmarks": NO_FENCES}
    return make_snapshot(made.store, [str(source)], options, progress=lambda done, total: None, **nothing).snapshot


def publish_with(
    made: Publishing, snapshot: str, source: Path, key: KeyEncryption | None, keys: Sequence[KeyEncryption] = ()
) -> str:
    """Publish two shards and an index, encrypted with ``key``; ``keys`` open the snapshot."""
    world = PublishWorld(
        signer=made.keys["publisher"], now=lambda: NOW, progress=lambda done, total: None, unlocked=Unlocked(keys)
    )
    options = PublishOptions(shards=2, encrypt=key, encrypt_index=key is not None)
    return publish(made.store, snapshot, [str(source)], options, fences=NO_FENCES, world=world).root


@cache
def _base(*, sealed: bool = False) -> tuple[Publishing, FileKey, str, str]:
    """A plain and an encrypted release of one snapshot, plain or sealed, published once a process."""
    made = Publishing(store=MemoryStore())
    made.init()
    key = a_key()
    with tempfile.TemporaryDirectory() as folder:
        source = write_source(Path(folder) / "a.arrow", records_table(RECORDS))
        snapshot = encrypted_snapshot(made, source, key) if sealed else made.snapshot(source)
        plain = publish_with(made, snapshot, source, None, [key])
        return made, key, plain, publish_with(made, snapshot, source, key, [key])


class Encrypted(Built):
    """An encrypted release, the same records in a plain one, and the keys that a reader has.

    Attributes:
        keys: With which it is verified.
    """

    def __init__(self, made: Publishing, root: str, key: FileKey, plain: str) -> None:
        super().__init__(made, root)
        self.key, self.plain = key, made.release(plain)
        self.keys: list[KeyEncryption] = [key]

    def lock(self, number: int) -> ShardLock:
        """What a shard is encrypted with."""
        found = shard_lock(self.release, self.release.shards[number], Unlocked([self.key]))
        assert found is not None
        return found

    def shard_table(self, number: int) -> Any:
        """Columns of a shard; those of the plain release are the same."""
        return pq.read_table(pa.BufferReader(get_by_digest(self.store, self.plain.shards[number].digest)))

    def entry(self, number: int, **fields: Any) -> None:
        """Other fields in a shard's entry."""
        self.declare(number, changed(self.release.shards[number], **fields))

    def encrypt_anew(self, number: int, table: Any, *, aad_prefix: bytes | None = None, **options: Any) -> bytes:
        """A table as an encrypted file of a shard's data key, bound to its place unless another prefix is given."""
        lock = self.lock(number)
        sealed = encryption_properties(lock.data_key, lock.aad_prefix if aad_prefix is None else aad_prefix)
        return self.encoded(table, encryption_properties=sealed, **options)

    def verified(self, root: str | None = None) -> VerifyResult:
        view = read_gate(self.store, self.made.dataset)
        world = replace(a_world(self.made), unlocked=Unlocked(self.keys))
        return verify_release(self.store, root or self.seal(), view, world=world)


def an_encrypted_release(*, sealed: bool = False) -> Encrypted:
    """A fresh copy of the release, whose snapshot may be sealed too; changes stay in the copy."""
    made, key, plain, root = _base(sealed=sealed)
    return Encrypted(Publishing(store=copied(made.store), keys=made.keys, dataset=made.dataset), root, key, plain)

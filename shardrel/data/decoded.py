"""Decoded shards of a host: made once, proven by their logical digest, checked again whenever they are opened.

Source: schemas/SPEC.md#host-cache, #decoded-columns
"""

import functools
import io
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import xxhash

from shardrel.canonical import json
from shardrel.canonical.rows import RowEncoder
from shardrel.data.cache import ShardCache, usable
from shardrel.data.columns import StoredColumn, stored_column
from shardrel.data.encryption import ReleaseLocks
from shardrel.data.forms import form_of, to_stored
from shardrel.data.sealed import SealedEntry
from shardrel.data.shards import open_shard, shard_descriptor
from shardrel.digest import Domain, domain_hash, lp, raw_digest, to_digest, u64
from shardrel.errors import ErrorCode, IntegrityError
from shardrel.records.release import Shard
from shardrel.records.schema import Field, RecordSchema

VERSION = 1
"""Of the layout; part of every entry's name."""

_MAGIC = b"shardrel/decoded"
_HEADER = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardEntry:
    """A shard of a release and the schema of its records.

    Attributes:
        locks: Of the release, where it is encrypted.
    """

    shard: Shard
    schema: RecordSchema
    locks: ReleaseLocks | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedShard:
    """The wanted columns of the samples of one shard, in stored order."""

    columns: tuple[StoredColumn, ...]
    samples: int


class DecodedCache:
    """Decoded shards in a host's cache folder.

    Attributes:
        cache: Of the stored bytes; its folder, its bound and its counts are shared.
    """

    def __init__(self, cache: ShardCache) -> None:
        self.cache = cache
        self._checked: dict[str, tuple[int, int, int, int]] = {}

    @property
    def made(self) -> int:
        """Shards that this process decoded."""
        return self.cache.counts.get("decoded")

    def open(self, entry: ShardEntry, fields: tuple[Field, ...], split: str | None) -> DecodedShard:
        """A shard's samples, from its decoded file, else made from its stored bytes.

        A shard of an encrypted release is written down decoded as ciphertext alone.

        Raises:
            IntegrityError: ``logical.digest-mismatch`` and what reading the shard may give.
            NotFoundError, UnavailableError: As ``ShardCache.read``.

        Effects: may create an entry, move a corrupt one to ``quarantine/`` and evict others.
        """
        name = entry_name(entry.shard, fields, split)
        lock = None if entry.locks is None else entry.locks.of(entry.shard)
        if lock is not None:
            return _from_ipc(self._sealed(SealedEntry(lock, name), entry, fields, split), fields)
        path = self.cache.files.path("decoded", name)
        with usable():
            found = self._map(path, name)
            if found is None:
                with self.cache.files.alone(name):
                    found = self._map(path, name) or self._make(path, name, self._decode(entry, fields, split))
        return _from_ipc(found, fields)

    def _sealed(self, sealed: SealedEntry, entry: ShardEntry, fields: tuple[Field, ...], split: str | None) -> Any:
        """The body of an encrypted shard's entry, in memory; it is made where there is none."""
        path = self.cache.files.path("decoded", sealed.name)
        with usable():
            found = self._unseal(path, sealed)
            if found is not None:
                return found
            with self.cache.files.alone(sealed.name):
                found = self._unseal(path, sealed)
                if found is None:
                    body = found = _ipc_bytes(self._decode(entry, fields, split))
                    self.cache.files.install(path, len(body), lambda file: sealed.write(file, body))
        return found

    def _unseal(self, path: Path, sealed: SealedEntry) -> Any:
        mapped = self.cache.files.map(path)
        if mapped is None:
            return None
        found = sealed.read(mapped.data)
        if found is None:
            self.cache.set_aside(path)
        return found

    def _decode(self, entry: ShardEntry, fields: tuple[Field, ...], split: str | None) -> Any:
        data = self.cache.read(shard_descriptor(entry.shard))
        self.cache.counts.add("decoded")
        return decode_shard(data, entry, fields, split)

    def _map(self, path: Path, name: str) -> Any:
        """The body of an entry whose bytes are those that were written; None where there is no such entry.

        All bytes are looked at when this process opens the file first, and when it was written to since.
        """
        mapped = self.cache.files.map(path)
        if mapped is None:
            return None
        if self._checked.get(name) != mapped.identity and not (_is_ours(mapped.facts) and _is_whole(mapped.data, name)):
            self._checked.pop(name, None)
            self.cache.set_aside(path)
            return None
        self._checked[name] = mapped.identity
        return pa.py_buffer(mapped.data).slice(_HEADER)

    def _make(self, path: Path, name: str, batch: Any) -> Any:
        self.cache.files.install(path, batch.nbytes, lambda file: _write(file, name, batch))
        made = self._map(path, name)
        if made is None:
            raise IntegrityError(ErrorCode.CACHE_CORRUPT, "a decoded shard reads back as other bytes", entry=name)
        return made


def entry_name(shard: Shard, fields: Sequence[Field], split: str | None) -> str:
    """64 hex digits that stand for what is in a decoded file: shard, columns, split and layout."""
    what = _told(tuple(fields), split)
    return domain_hash(Domain.ID, lp(_MAGIC), u64(VERSION), raw_digest(shard.digest), lp(what)).hex()


@functools.lru_cache(maxsize=16)
def _told(fields: tuple[Field, ...], split: str | None) -> bytes:
    return json.encode([list(fields), split])


def decode_shard(data: bytes, entry: ShardEntry, fields: tuple[Field, ...], split: str | None) -> Any:
    """Record batch of the wanted columns in their forms, of the split's samples alone.

    All columns are decoded, so that the records can be held against the shard's logical digest.

    Raises:
        IntegrityError: ``logical.digest-mismatch``; ``parquet.structure`` and others of ``open_shard``.
    """
    lock = None if entry.locks is None else entry.locks.of(entry.shard)
    opened = open_shard(data, entry.shard, entry.schema.fields, split, lock)
    _check_logical(opened.table, entry)
    table = opened.table.select([field.name for field in fields])
    if opened.rows is not None:
        table = table.take(pa.array(opened.rows))
    columns = [to_stored(_whole(column), form_of(field)) for column, field in zip(table.columns, fields, strict=True)]
    return pa.record_batch(columns, [field.name for field in fields])


def _check_logical(table: Any, entry: ShardEntry) -> None:
    encoder = RowEncoder(entry.schema)
    digests = encoder.content_digests(table).digests
    stream = domain_hash(
        Domain.STREAM, encoder.content_type, u64(len(digests)), np.ascontiguousarray(digests).tobytes()
    )
    if to_digest(stream) != entry.shard.logical_digest:
        raise IntegrityError(
            ErrorCode.LOGICAL_DIGEST, "a shard decodes to other records than were released", shard=entry.shard.id
        )


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


class _Sink(io.RawIOBase):
    """Hashes what goes into a file; counts from where it began."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = 0
        self.state = xxhash.xxh3_128()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self.state.update(view)
        self._file.write(view)
        self._at += view.nbytes
        return view.nbytes


def _write(file: BinaryIO, name: str, batch: Any) -> None:
    file.write(bytes(_HEADER))
    sink = _Sink(file)
    with pa.ipc.new_file(pa.PythonFile(sink, mode="w"), batch.schema) as writer:
        writer.write_batch(batch)
    file.seek(0)
    file.write(_MAGIC + bytes.fromhex(name) + sink.state.digest())


def _ipc_bytes(batch: Any) -> Any:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _is_whole(mapped: mmap.mmap | bytes, name: str) -> bool:
    if len(mapped) <= _HEADER or mapped[:48] != _MAGIC + bytes.fromhex(name):
        return False
    with memoryview(mapped) as view, view[_HEADER:] as body:
        return xxhash.xxh3_128_digest(body) == mapped[48:_HEADER]


def _is_ours(facts: os.stat_result) -> bool:
    """The checksum finds damage and not malice, so nobody else may write to the file."""
    return facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


def _from_ipc(body: Any, fields: tuple[Field, ...]) -> DecodedShard:
    batch = pa.ipc.open_file(body).get_batch(0)
    columns = tuple(stored_column(batch.column(at), form_of(field)) for at, field in enumerate(fields))
    return DecodedShard(columns=columns, samples=batch.num_rows)

"""Tiny releases in memory that can be changed at any depth, with every digest above the change made right again.

An attacker who may write to the store and hold the publisher's key can do all of this; what he cannot
do is change the snapshot's digest.
"""

import copy
import io
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from publisher.provenance import Build, provenance
from shardrel.canonical.rows import RowEncoder
from shardrel.digest import Domain, domain_hash, raw_digest, to_digest, u64
from shardrel.gate.attestations import attach
from shardrel.gate.view import read_gate
from shardrel.membership.columns import Members
from shardrel.membership.order import canonical_order
from shardrel.membership.tuples import member_set_digest, tuple_leaves
from shardrel.records.descriptor import PARQUET
from shardrel.records.release import Release, Shard
from shardrel.records.report import Report
from shardrel.records.schema import RecordSchema
from shardrel.records.snapshot import MemberIndex, Part, Snapshot
from shardrel.store.layout import object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_by_digest, get_record, put, put_record, unversioned
from tests.support.publishing import NOW, Publishing, records_table, write_source
from verifier.verify import VerifyResult, World, verify_release

RECORDS = 60
TUPLE_COLUMNS = 4


@cache
def _base() -> tuple[Publishing, str]:
    """One release, published once a process."""
    made = Publishing(store=MemoryStore())
    made.init()
    with tempfile.TemporaryDirectory() as folder:
        source = write_source(Path(folder) / "a.arrow", records_table(RECORDS))
        snapshot = made.snapshot(source)
        return made, made.publish(snapshot, source).root


def a_world(made: Publishing, workers: int = 2) -> World:
    """The verifier's world, with a clock that stands still."""
    return World(signer=made.keys["verifier"], now=lambda: NOW, progress=lambda done, total: None, workers=workers)


@dataclass
class Built:
    """A release of 60 records in two shards, and a manifest that a test may replace."""

    made: Publishing
    root: str
    release: Release = field(init=False)

    def __post_init__(self) -> None:
        self.release = self.made.release(self.root)

    @property
    def store(self) -> MemoryStore:
        """Where everything is."""
        store = self.made.store
        assert isinstance(store, MemoryStore)
        return store

    @property
    def schema(self) -> RecordSchema:
        """The release's record schema."""
        return get_record(self.store, self.release.objects.record_schema, RecordSchema)

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that it claims to hold."""
        return get_record(self.store, self.release.objects.snapshot, Snapshot)

    def shard_bytes(self, number: int) -> bytes:
        """Stored bytes of a shard."""
        return get_by_digest(self.store, self.release.shards[number].digest)

    def shard_table(self, number: int) -> Any:
        """Columns of a shard."""
        return pq.read_table(pa.BufferReader(self.shard_bytes(number)))

    def put_shard(self, number: int, data: bytes, **declared: Any) -> None:
        """Store other bytes for a shard; storage digest, size and totals follow, and what is declared here."""
        descriptor, _ = put(self.store, data, PARQUET)
        version = descriptor.object_version
        entry = replace(
            self.release.shards[number], digest=descriptor.digest, size=len(data), object_version=version, **declared
        )
        self.declare(number, entry)

    def declare(self, number: int, entry: Shard) -> None:
        """Replace a shard's entry; the totals follow."""
        shards = (*self.release.shards[:number], entry, *self.release.shards[number + 1 :])
        totals = replace(
            self.release.totals,
            records=sum(shard.records for shard in shards),
            tokens=sum(shard.tokens for shard in shards),
            stored_bytes=sum(shard.size for shard in shards),
            logical_bytes=sum(shard.logical_bytes for shard in shards),
        )
        self.release = replace(self.release, shards=shards, totals=totals)

    def rewrite(self, number: int, change: Callable[[Any], Any], **options: Any) -> None:
        """Change a shard's records; everything that its entry declares is made right again."""
        table = change(self.shard_table(number))
        self.put_shard(number, parquet_bytes(table, **options), **self.true_entry(table))

    def true_entry(self, table: Any) -> dict[str, Any]:
        """What an honest publisher would declare of these records."""
        encoder = RowEncoder(self.schema)
        digested = encoder.content_digests(table.select(range(TUPLE_COLUMNS, table.num_columns)))
        columns = [table.column(i).combine_chunks() for i in range(TUPLE_COLUMNS)]
        members = Members(
            sample_ids=columns[0],
            source_ids=columns[1],
            source_versions=columns[2],
            splits=columns[3],
            digests=digested.digests,
        )
        leaves = tuple_leaves(*columns[:3], digested.digests, columns[3], raw_digest(self.release.record_schema))
        count = u64(table.num_rows)
        stream = domain_hash(Domain.STREAM, encoder.content_type, count, digested.digests.tobytes())
        return {
            "records": table.num_rows,
            "tokens": sum(len(one or []) for one in table.column("tokens").to_pylist()),
            "logical_bytes": digested.logical_bytes,
            "logical_digest": to_digest(stream),
            "member_set_digest": to_digest(member_set_digest(leaves[canonical_order(members)])),
        }

    def recut(self, snapshot_part: int, index_part: int) -> None:
        """Cut the parts of the snapshot and of the member index anew, at so many tuples each."""
        snapshot = self.snapshot
        index = get_record(self.store, self.release.objects.member_index, MemberIndex)
        new_snapshot = replace(snapshot, parts=self._cut(snapshot.parts, snapshot_part))
        new_index = replace(index, parts=self._cut(index.parts, index_part))
        described = put_record(self.store, new_snapshot)
        objects = replace(
            self.release.objects,
            snapshot=described,
            member_index=unversioned(put_record(self.store, new_index)),
        )
        self.release = replace(self.release, objects=objects, dataset_snapshot=described.digest)

    def _cut(self, parts: tuple[Part, ...], size: int) -> tuple[Part, ...]:
        tables = [pq.read_table(pa.BufferReader(get_by_digest(self.store, part.object.digest))) for part in parts]
        table = pa.concat_tables(tables)
        pieces = [table.slice(at, size) for at in range(0, table.num_rows, size)]
        return tuple(self._part(piece.combine_chunks()) for piece in pieces)

    def _part(self, table: Any) -> Part:
        descriptor = unversioned(put(self.store, parquet_bytes(table), PARQUET)[0])
        return Part(object=descriptor, records=table.num_rows, last_sample_id=table.column(0)[-1].as_py())

    def seal(self, *, with_provenance: bool = True) -> str:
        """Store the manifest as it now is, and the publisher's word for it; the new root."""
        root = put_record(self.store, self.release).digest
        build = Build(
            snapshot=self.release.dataset_snapshot,
            parameters={},
            sources=[],
            publication="publish-test",
            started_on=NOW,
            finished_on=NOW,
        )
        if with_provenance:
            sealed = provenance(root, self.release.dataset, build, self.made.keys["publisher"])
            attach(self.store, root, sealed)
        return root

    def verified(self, root: str | None = None) -> VerifyResult:
        """Verify this root, by default the manifest as it now is."""
        view = read_gate(self.store, self.made.dataset)
        return verify_release(self.store, root or self.seal(), view, world=a_world(self.made))

    def report(self) -> Report:
        """Seal and verify."""
        return self.verified().report

    def overwrite(self, digest: str, data: bytes) -> None:
        """Put other bytes under an object's key, as only somebody with the store's credentials can."""
        key = object_key(digest)
        stored = self.store.read(key, max_bytes=1 << 30)
        assert stored is not None
        self.store.swap(key, data, stored.token)


def a_release() -> Built:
    """A fresh copy of the release; changes stay in the copy."""
    made, root = _base()
    return Built(Publishing(store=copied(made.store), keys=made.keys, dataset=made.dataset), root)


def copied(store: Any) -> MemoryStore:
    """A store with the same objects and versions."""
    twin = MemoryStore()
    twin.__dict__.update({name: copy.copy(value) for name, value in vars(store).items() if name != "_lock"})
    twin._versions = {key: list(kept) for key, kept in store._versions.items()}
    return twin


def parquet_bytes(table: Any, **options: Any) -> bytes:
    """A Parquet file as a shard is one, unless options say otherwise."""
    sink = io.BytesIO()
    settings = {"store_schema": False, "write_page_checksum": True, "compression": "zstd", **options}
    pq.write_table(table, sink, **settings)
    return sink.getvalue()


def codes(report: Report) -> set[str]:
    """Codes of a report's findings."""
    return {finding.code for finding in report.findings}

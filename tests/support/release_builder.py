"""Tiny releases in memory that can be changed at any depth, with every digest above the change made right again.

An attacker who may write to the store and hold the publisher's key can do all of this; what he cannot
do is change the snapshot's digest.
"""

import copy
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from publisher.provenance import Build, provenance
from shardrel.cli.drill_tools import the_tools
from shardrel.drills.forge import Forgery, parquet_bytes
from shardrel.gate.attestations import attach
from shardrel.gate.view import read_gate
from shardrel.records.descriptor import PARQUET
from shardrel.records.report import Report
from shardrel.records.snapshot import MemberIndex, Part
from shardrel.store.layout import object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_by_digest, get_record, put, put_record, unversioned
from tests.support.publishing import NOW, Publishing, records_table, write_source
from verifier.verify import VerifyResult, World, verify_release

RECORDS = 60


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


class Built(Forgery):
    """A release of 60 records in two shards, and a manifest that a test may replace."""

    def __init__(self, made: Publishing, root: str) -> None:
        super().__init__(made.store, made.release(root))
        self.made = made
        self.root = root

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

    def fit(self) -> None:
        """Make ordered root, member index and totals by split fit the shards as they now are."""
        self.refit(the_tools().put_index)

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


def codes(report: Report) -> set[str]:
    """Codes of a report's findings."""
    return {finding.code for finding in report.findings}

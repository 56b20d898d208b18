"""A published, admitted release and an open run on it, ready to be trained on."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from publisher.options import PublishOptions
from shardrel.canonical import json
from shardrel.data.shards import count_split
from shardrel.gate import admit, runs
from shardrel.gate.attestations import attach
from shardrel.gate.call import Call
from shardrel.gate.view import read_gate
from shardrel.records.release import Release
from shardrel.records.report import APPROVAL_PREDICATE, REPORT_PREDICATE, STATEMENT_PAYLOAD
from shardrel.records.snapshot import Columns
from shardrel.store.objects import get_by_digest
from shardrel.store.port import Store
from shardrel.trust.envelope import seal
from shardrel.trust.key_encryption import KeyEncryption
from shardrel.trust.keys import SigningKey
from shardrel.trust.statement import statement
from tests.support.gates import a_report, an_approval
from tests.support.publishing import NOW, Publishing

RUN = "run-1"
COLUMNS = Columns(id="id", source=None, version=None, split="split")


@dataclass(frozen=True, kw_only=True)
class TrainingWorld:
    """What a job needs to start."""

    store: Store
    dataset: str
    root: str
    run: str
    release: Release
    keys: dict[str, SigningKey]

    @property
    def signer(self) -> SigningKey:
        """The runner's key."""
        return self.keys["admin"]

    def call(self) -> Call:
        """A call of the gate by the administrator."""
        return Call(signers=[self.signer], recorded_at=NOW, operation_id=None, pending=None)


def texts_table(count: int, first: int = 0) -> pa.Table:
    """Records of two splits: a text that holds its own number, and a number."""
    return pa.table(
        {
            "id": [f"s{n:05d}" for n in range(first, first + count)],
            "split": ["test" if n % 5 == 0 else "train" for n in range(first, first + count)],
            "text": [f"{n:05d}:" + "abcdefghij"[n % 10] * (n % 40) for n in range(first, first + count)],
            "number": pa.array(range(first, first + count), pa.int64()),
        }
    )


def training_world(
    store: Store,
    folder: Path,
    *,
    records: int = 60,
    shards: int = 5,
    run: str = RUN,
    encrypt: KeyEncryption | None = None,
) -> TrainingWorld:
    """Publish, attest, approve, admit as ``prod`` and start a run."""
    source = folder / "texts.parquet"
    pq.write_table(texts_table(records), source)
    publishing = Publishing(store=store)
    publishing.init()
    snapshot = publishing.snapshot(source, columns=COLUMNS, token_column=None)
    root = publishing.publish(snapshot, source, options=PublishOptions(shards=shards, encrypt=encrypt)).root
    attest_root(publishing, root)
    call = Call(signers=[publishing.keys["admin"]], recorded_at=NOW, operation_id=None, pending=None)
    admit.admit(store, publishing.dataset, root, "prod", call)
    runs.start(store, publishing.dataset, "prod", call, run_id=run)
    release = json.decode(get_by_digest(store, root), Release)
    return TrainingWorld(
        store=store, dataset=publishing.dataset, root=root, run=run, release=release, keys=publishing.keys
    )


def move_alias(world: TrainingWorld, folder: Path, *, records: int = 30) -> frozenset[str]:
    """Point ``prod`` to another release; the digests of all objects that are this one's alone."""
    source = folder / "others.parquet"
    pq.write_table(texts_table(records).set_column(3, "number", pa.array(range(1, records + 1), pa.int64())), source)
    publishing = Publishing(store=world.store, keys=world.keys, dataset=world.dataset)
    snapshot = publishing.snapshot(source, columns=COLUMNS, token_column=None)
    root = publishing.publish(snapshot, source, options=PublishOptions(shards=3)).root
    attest_root(publishing, root)
    admit.admit(world.store, world.dataset, root, "prod", world.call())
    release = publishing.release(root)
    theirs = {root, *(shard.digest for shard in release.shards), release.objects.snapshot.digest}
    return frozenset(theirs - {shard.digest for shard in world.release.shards})


def another_release(world: TrainingWorld, folder: Path, alias: str, *, records: int, first: int, shards: int) -> str:
    """Publish other records of the same shape and admit them under another alias."""
    source = folder / f"{alias}.parquet"
    pq.write_table(texts_table(records, first), source)
    publishing = Publishing(store=world.store, keys=world.keys, dataset=world.dataset)
    snapshot = publishing.snapshot(source, columns=COLUMNS, token_column=None)
    root = publishing.publish(snapshot, source, options=PublishOptions(shards=shards)).root
    attest_root(publishing, root)
    admit.admit(world.store, world.dataset, root, alias, world.call())
    return root


def split_sizes(world: TrainingWorld, split: str) -> tuple[int, ...]:
    """Samples of a split in each shard."""
    store = world.store
    return tuple(count_split(get_by_digest(store, one.digest), one, split) for one in world.release.shards)


def attest_root(publishing: Publishing, root: str) -> None:
    """A verifier's report and an approval."""
    store, keys = publishing.store, publishing.keys
    body = read_gate(store, publishing.dataset).body
    report = statement(root, REPORT_PREDICATE, a_report(body, root), "root")
    attach(store, root, seal(report, STATEMENT_PAYLOAD, [keys["verifier"]]))
    approval = statement(root, APPROVAL_PREDICATE, an_approval(body, root), "root")
    attach(store, root, seal(approval, STATEMENT_PAYLOAD, [keys["approver"]]))

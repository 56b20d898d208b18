"""A dataset with a gate, a snapshot and a source, ready to be published."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from publisher.options import PublishOptions, PublishResult
from publisher.publish import World, publish
from publisher.snapshot import SnapshotOptions, make_snapshot
from shardrel.canonical import json
from shardrel.gate.call import Call
from shardrel.gate.fences import FenceSelectors
from shardrel.gate.init import init
from shardrel.records.release import Release
from shardrel.records.snapshot import Columns
from shardrel.store.objects import get_by_digest
from shardrel.store.port import Store
from shardrel.trust.keys import SigningKey, generate
from shardrel.trust.policy import default_policy

NOW = "2026-01-31T12:00:00Z"
ID_COLUMNS = Columns(id="id", source=None, version="version", split="split")
ROLES = ("publisher", "verifier", "approver", "admin")
NO_FENCES = FenceSelectors()


def new_keys() -> dict[str, SigningKey]:
    """A key for each local role."""
    return {role: generate(role) for role in ROLES}


@dataclass(kw_only=True)
class Publishing:
    """One dataset: its store and its keys."""

    store: Store
    keys: dict[str, SigningKey] = field(default_factory=new_keys)
    dataset: str = "data"

    def init(self) -> None:
        """Create the gate."""
        policy = default_policy({role: key.public for role, key in self.keys.items()})
        call = Call(signers=[self.keys["admin"]], recorded_at=NOW, operation_id=None, pending=None)
        init(self.store, self.dataset, policy, call)

    def snapshot(
        self, *sources: Path, columns: Columns = ID_COLUMNS, token_column: str | None = "tokens",
        fences: FenceSelectors = NO_FENCES,
    ) -> str:  # fmt: skip
        """Declare what the sources hold, less what the fences name."""
        options = SnapshotOptions(
            dataset=self.dataset, columns=columns, token_column=token_column, apply_tombstones=True
        )
        return make_snapshot(
            self.store, [str(source) for source in sources], options, tombstones=fences, benchmarks=NO_FENCES,
            progress=lambda done, total: None,
        ).snapshot  # fmt: skip

    def publish(
        self,
        snapshot: str,
        *sources: Path,
        options: PublishOptions | None = None,
        fences: FenceSelectors = NO_FENCES,
        now: Callable[[], str] = lambda: NOW,
    ) -> PublishResult:
        """Publish with the publisher's key; two shards where nothing else is said."""
        world = World(signer=self.keys["publisher"], now=now, progress=lambda done, total: None)
        names = [str(source) for source in sources]
        return publish(self.store, snapshot, names, options or PublishOptions(shards=2), fences=fences, world=world)

    def release(self, root: str) -> Release:
        """The root manifest."""
        return json.decode(get_by_digest(self.store, root), Release)


def records_table(count: int, first: int = 0) -> Any:
    """A source table: ids out of order, two splits, strings, numbers, lists and nulls."""
    numbers = [(i * 7919) % 100_003 for i in range(first, first + count)]
    return pa.table(
        {
            "id": [f"sample-{n:06d}" for n in numbers],
            "version": [n % 3 for n in numbers],
            "split": ["test" if n % 10 == 0 else "train" for n in numbers],
            "text": [f"text number {n} " * (n % 5) for n in numbers],
            "label": pa.array([None if n % 13 == 0 else f"label-{n % 3}" for n in numbers], pa.string()),
            "score": [n / 7 for n in numbers],
            "tokens": pa.array([[n % 65536] * (n % 6) for n in numbers], pa.list_(pa.uint16())),
        }
    )


def write_source(path: Path, table: Any, *, batch_records: int = 1 << 20) -> Path:
    """Write a table as an Arrow IPC file, in batches of so many records."""
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_records)
    return path

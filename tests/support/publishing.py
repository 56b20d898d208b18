"""A dataset with a gate, a snapshot and a source, ready to be published."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from publisher.mapping import Mapping, no_columns
from publisher.member_index import encode_part
from publisher.members import read_members
from publisher.options import PublishOptions, PublishResult
from publisher.publish import World, publish
from shardrel.gate.call import Call
from shardrel.gate.init import init
from shardrel.membership.columns import concat
from shardrel.membership.order import canonical_order
from shardrel.records.descriptor import PARQUET
from shardrel.records.snapshot import Columns, Part, Snapshot, SplitTotals
from shardrel.store.objects import put, put_record, unversioned
from shardrel.store.port import Store
from shardrel.trust.keys import SigningKey, generate
from shardrel.trust.policy import default_policy

NOW = "2026-01-31T12:00:00Z"
ID_COLUMNS = Columns(id="id", source=None, version=None, split="split")
ROLES = ("publisher", "verifier", "approver", "admin")


@dataclass(frozen=True, kw_only=True)
class NoFences:
    """Selectors that name nothing, or what a test puts in."""

    sample_ids: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    source_versions: frozenset[tuple[str, str]] = frozenset()
    content_digests: frozenset[bytes] = frozenset()
    text_digests: frozenset[bytes] = frozenset()


@dataclass(kw_only=True)
class Publishing:
    """One dataset's store, keys and snapshot."""

    store: Store
    keys: dict[str, SigningKey] = field(default_factory=lambda: {role: generate(role) for role in ROLES})
    dataset: str = "data"

    def init(self) -> None:
        """Create the gate."""
        policy = default_policy({role: key.public for role, key in self.keys.items()})
        call = Call(signers=[self.keys["admin"]], recorded_at=NOW, operation_id=None, pending=None)
        init(self.store, self.dataset, policy, call)

    def snapshot(
        self,
        sources: Sequence[Path],
        columns: Columns = ID_COLUMNS,
        *,
        token_column: str | None = None,
        part: int = 100,
    ) -> str:
        """Declare what the sources hold, in parts of ``part`` members."""
        mapping = Mapping(columns=columns, token_column=token_column, text_columns=None)
        reader = read_members([str(source) for source in sources], mapping)
        batches = list(reader.batches())
        members = concat([batch.members for batch in batches])
        tokens = sum(int(batch.tokens.sum()) for batch in batches)
        table = members.take(canonical_order(members)).to_table()
        parts = [self._part(table.slice(at, part).combine_chunks()) for at in range(0, len(members), part)]
        snapshot = Snapshot(
            dataset=self.dataset,
            tombstone_watermark=0,
            benchmark_fence=0,
            record_schema=unversioned(put_record(self.store, reader.record_schema)),
            parts=tuple(parts),
            records=len(members),
            tokens=tokens,
            splits={"train": SplitTotals(records=len(members), tokens=tokens)},
            columns=columns,
            token_column=token_column,
            text_columns=None,
        )
        return put_record(self.store, snapshot).digest

    def publish(
        self, snapshot: str, sources: Sequence[Path], options: PublishOptions, fences: NoFences | None = None
    ) -> PublishResult:
        """Publish with the publisher's key, at a time that stands still."""
        world = World(signer=self.keys["publisher"], now=lambda: NOW, progress=lambda done, total: None)
        names = [str(source) for source in sources]
        return publish(self.store, snapshot, names, options, fences=fences or NoFences(), world=world)

    def _part(self, table: Any) -> Part:
        descriptor = unversioned(put(self.store, memoryview(encode_part(table)), PARQUET)[0])
        return Part(object=descriptor, records=table.num_rows, last_sample_id=table["sample_id"][-1].as_py())


def records_table(count: int, first: int = 0) -> Any:
    """A source table: ids out of order, two splits, strings, numbers, lists and nulls."""
    numbers = [(i * 7919) % 100_003 for i in range(first, first + count)]
    return pa.table(
        {
            "id": [f"sample-{n:06d}" for n in numbers],
            "split": ["test" if n % 10 == 0 else "train" for n in numbers],
            "text": [f"text number {n} " * (n % 5) for n in numbers],
            "label": pa.array([None if n % 13 == 0 else f"label-{n % 3}" for n in numbers], pa.string()),
            "score": [n / 7 for n in numbers],
            "tokens": pa.array([[n % 65536] * (n % 6) for n in numbers], pa.list_(pa.uint16())),
        }
    )


__all__ = ["ID_COLUMNS", "NoFences", "Publishing", "no_columns", "records_table"]

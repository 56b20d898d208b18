"""Change a release at any depth, and make every digest above the change right again.

Whoever may write to the store and holds the publisher's key can do all of this; what he cannot do is
change the digest of the snapshot that was declared.
"""

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from shardrel.canonical.packed import unpacked
from shardrel.canonical.rows import RowEncoder
from shardrel.digest import Domain, domain_hash, raw_digest, to_digest, u64
from shardrel.drills.tools import PutIndex
from shardrel.membership.columns import FIELDS, SPLIT_COLUMN, Members, combined, concat
from shardrel.membership.merkle import MerkleStream, ordered_root
from shardrel.membership.order import canonical_order
from shardrel.membership.tuples import member_leaves, member_set_digest
from shardrel.records.descriptor import PARQUET
from shardrel.records.release import Release, Shard
from shardrel.records.schema import RecordSchema
from shardrel.records.snapshot import Snapshot, SplitTotals
from shardrel.store.objects import get_by_digest, get_record, put, put_record
from shardrel.store.port import Store

# The reserved columns stand before the payload.
TUPLE_COLUMNS = len(FIELDS)


@dataclass
class Forgery:
    """A root manifest in the making.

    Attributes:
        store: Where its objects are; a change adds objects and takes none away.
        release: The manifest as it now is.
    """

    store: Store
    release: Release

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
        self._list((*self.release.shards[:number], entry, *self.release.shards[number + 1 :]))

    def rewrite(self, number: int, change: Callable[[Any], Any], **options: Any) -> None:
        """Change a shard's records; everything that its entry declares is made right again."""
        table = change(self.shard_table(number))
        self.put_shard(number, self.encoded(table, **options), **self.true_entry(table))

    def encoded(self, table: Any, **options: Any) -> bytes:
        """A Parquet file as the manifest declares the shards to be, unless options say otherwise."""
        serializer, compression = self.release.serializer, self.release.compression
        declared: dict[str, Any] = {
            "version": serializer.format_version,
            "data_page_version": serializer.data_page_version,
            "row_group_size": serializer.row_group_records,
            "compression": compression.codec,
            "compression_level": compression.level,
            "use_dictionary": [column.path for column in serializer.columns if column.dictionary],
            "column_encoding": {c.path: c.encoding for c in serializer.columns if not c.dictionary} or None,
            "write_statistics": False,
        }
        return parquet_bytes(table, **{**declared, **options})

    def relist(self, shards: Iterable[Shard]) -> None:
        """Other shards, under the ids that so many have; the totals follow."""
        entries = tuple(shards)
        named = [replace(e, id=f"shard-{n:05d}-of-{len(entries):05d}") for n, e in enumerate(entries)]
        self._list(tuple(named))
        totals = replace(self.release.totals, shards=len(entries))
        self.release = replace(
            self.release, totals=totals, sharding=replace(self.release.sharding, shards=len(entries))
        )

    def true_entry(self, table: Any) -> dict[str, Any]:
        """What an honest publisher would declare of these records."""
        encoder = RowEncoder(self.schema)
        digested = encoder.content_digests(self._payload(table))
        members = _members(table, digested.digests)
        leaves = self._leaves(members)
        stream = domain_hash(Domain.STREAM, encoder.content_type, u64(table.num_rows), digested.digests.tobytes())
        return {
            "records": table.num_rows,
            "tokens": sum(self._tokens(table)),
            "logical_bytes": digested.logical_bytes,
            "logical_digest": to_digest(stream),
            "member_set_digest": to_digest(member_set_digest(leaves[canonical_order(members)])),
        }

    def refit(self, put_index: PutIndex) -> None:
        """Make the ordered root, the member index and the totals by split fit the shards as they now are."""
        tables = [self.shard_table(number) for number in range(len(self.release.shards))]
        members = concat([self._members_of(table) for table in tables])
        order = canonical_order(members)
        leaves = self._leaves(members)[order]
        root = self._ordered_root(leaves)
        shards = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])
        rows = np.concatenate([np.arange(table.num_rows) for table in tables])
        places = shards[order].astype(np.uint32), rows[order].astype(np.uint32)
        index = put_index(self.store, members.take(order).sample_ids, leaves, places, root)
        self.release = replace(
            self.release,
            ordered_member_tuple_root=root,
            objects=replace(self.release.objects, member_index=index),
            totals=replace(self.release.totals, splits=self._splits(pa.concat_tables(tables))),
        )

    def put_root(self) -> str:
        """Store the manifest as it now is; its digest."""
        return put_record(self.store, self.release).digest

    def _list(self, shards: tuple[Shard, ...]) -> None:
        totals = replace(
            self.release.totals,
            records=sum(shard.records for shard in shards),
            tokens=sum(shard.tokens for shard in shards),
            stored_bytes=sum(shard.size for shard in shards),
            logical_bytes=sum(shard.logical_bytes for shard in shards),
        )
        self.release = replace(self.release, shards=shards, totals=totals)

    def _members_of(self, table: Any) -> Members:
        return _members(table, RowEncoder(self.schema).content_digests(self._payload(table)).digests)

    def _payload(self, table: Any) -> Any:
        return unpacked(table.select(range(TUPLE_COLUMNS, table.num_columns)), self.schema.fields)

    def _leaves(self, members: Members) -> Any:
        return member_leaves(members, raw_digest(self.release.record_schema))

    def _ordered_root(self, leaves: Any) -> str:
        tree = MerkleStream()
        tree.append(leaves)
        fences = self.release.tombstone_watermark, self.release.benchmark_fence
        return to_digest(ordered_root(tree.root(), len(leaves), *fences))

    def _tokens(self, table: Any) -> list[int]:
        """Tokens of each record: the length of the token column's list, or its number."""
        name = self.release.token_column
        if name is None:
            return [0] * table.num_rows
        return [len(v) if isinstance(v, list) else v or 0 for v in self._payload(table).column(name).to_pylist()]

    def _splits(self, table: Any) -> dict[str, SplitTotals]:
        splits: dict[str, SplitTotals] = {}
        for name, tokens in zip(table.column(SPLIT_COLUMN).to_pylist(), self._tokens(table), strict=True):
            old = splits.get(name, SplitTotals(records=0, tokens=0))
            splits[name] = SplitTotals(records=old.records + 1, tokens=old.tokens + tokens)
        return splits


def parquet_bytes(table: Any, **options: Any) -> bytes:
    """A Parquet file as a shard is one, unless options say otherwise."""
    sink = io.BytesIO()
    settings = {"store_schema": False, "write_page_checksum": True, "compression": "zstd", **options}
    pq.write_table(table, sink, **settings)
    return sink.getvalue()


def with_values(table: Any, name: str, values: list[Any]) -> Any:
    """The table with other values in one column."""
    place = table.schema.get_field_index(name)
    field = table.schema.field(place)
    return table.set_column(place, field, pa.array(values, field.type))


def with_first(name: str, value: Any) -> Callable[[Any], Any]:
    """A change of the first record's value."""
    return lambda table: with_values(table, name, [value, *table.column(name).to_pylist()[1:]])


def _members(table: Any, digests: Any) -> Members:
    ids, sources, versions, splits = [combined(table.column(at)) for at in range(TUPLE_COLUMNS)]
    return Members(sample_ids=ids, source_ids=sources, source_versions=versions, splits=splits, digests=digests)

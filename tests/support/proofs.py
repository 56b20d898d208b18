"""Proofs of any small membership, made by the definitions alone, and a manifest to make them about.

Source: schemas/SPEC.md#proofs
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from shardrel.canonical import json
from shardrel.digest import digest_of, raw_digest, to_digest
from shardrel.records.descriptor import PARQUET, RECORD_JSON, Descriptor
from shardrel.records.proof import Neighbour, Proof, ProvenMember, in_words
from shardrel.records.release import Compression, Objects, Release, Serializer, Shard, Sharding, Totals
from tests.support.members import slow_leaf, slow_tree

# (sample id, source id, source version, 32 content bytes, split)
Row = tuple[Any, ...]
SCHEMA = digest_of(b"a record schema")
_DESCRIPTOR = Descriptor(media_type=RECORD_JSON, digest=digest_of(b"some record"), size=11)


def sorted_rows(rows: Sequence[Row]) -> list[Row]:
    """Rows in canonical order."""
    return sorted(rows, key=lambda row: tuple(field if isinstance(field, bytes) else field.encode() for field in row))


def a_manifest(rows: Sequence[Row], tombstones: int = 3, benchmarks: int = 2) -> Release:
    """The root manifest of these rows, which are in order; everything but the tree is made up."""
    tree = slow_tree([slow_leaf(row, raw_digest(SCHEMA)) for row in rows])
    numbers = b"".join(number.to_bytes(8, "little") for number in (len(rows), tombstones, benchmarks))
    return Release(
        dataset="data",
        dataset_snapshot=digest_of(b"a snapshot"),
        tombstone_watermark=tombstones,
        benchmark_fence=benchmarks,
        record_schema=SCHEMA,
        shards=(_shard(len(rows)),),
        totals=Totals(shards=1, records=len(rows), tokens=0, stored_bytes=9, logical_bytes=9, splits={}),
        ordered_member_tuple_root=to_digest(hashlib.sha256(b"shardrel/root\0\0\0" + tree + numbers).digest()),
        objects=Objects(snapshot=_DESCRIPTOR, record_schema=_DESCRIPTOR, member_index=_DESCRIPTOR),
        serializer=_SERIALIZER,
        compression=Compression(codec="zstd", level=3),
        sharding=Sharding(function="tuple-splitmix64.v1", shards=1, seed=0, sort_key="member-tuple.v1"),
        token_column=None,
        text_columns=None,
        schema_evolution=None,
        encryption=None,
    )


def root_of(release: Release) -> str:
    """Digest of a manifest."""
    return digest_of(json.encode(release))


def slow_proof(rows: Sequence[Row], sample_id: str, release: Release | None = None) -> Proof:
    """The proof about a sample id, by the definitions."""
    release = release or a_manifest(rows)
    inside = [at for at, row in enumerate(rows) if row[0] == sample_id]
    first = inside[0] if inside else sum(row[0].encode() < sample_id.encode() for row in rows)
    last = first + len(inside)
    lower, upper = max(first - 1, 0), min(last + 1, len(rows))
    leaves = [slow_leaf(row, raw_digest(SCHEMA)) for row in rows]
    return Proof(
        about=in_words(root_of(release), release, sample_id, len(inside)),
        sample_id=sample_id,
        count=len(inside),
        first=lower,
        left=a_neighbour(rows[lower]) if lower < first else None,
        members=tuple(a_member(row) for row in rows[first:last]),
        right=a_neighbour(rows[last]) if last < upper else None,
        nodes=tuple(map(to_digest, slow_nodes(leaves, lower, upper))),
        release=release,
    )


def slow_nodes(leaves: Sequence[bytes], first: int, last: int, start: int = 0) -> list[bytes]:
    """Roots of the largest subtrees without a leaf of [first, last), by the recursive definition of the tree."""
    end = start + len(leaves)
    if end <= first or last <= start:
        return [slow_tree(leaves)]
    if first <= start and end <= last:
        return []
    left = 1
    while left * 2 < len(leaves):
        left *= 2
    below = slow_nodes(leaves[:left], first, last, start)
    return below + slow_nodes(leaves[left:], first, last, start + left)


def a_member(row: Row) -> ProvenMember:
    """A row as the proof's own sample id has it."""
    return ProvenMember(source_id=row[1], source_version=row[2], content_digest=to_digest(row[3]), split=row[4])


def a_neighbour(row: Row) -> Neighbour:
    """A row as it is shown beside."""
    parts = [len(field.encode()).to_bytes(8, "little") + field.encode() for field in (row[1], row[2], row[4])]
    origin = hashlib.sha256(b"shardrel/origin\0" + b"".join(parts) + raw_digest(SCHEMA)).digest()
    return Neighbour(sample_id=row[0], origin=to_digest(origin), content_digest=to_digest(row[3]))


def _shard(records: int) -> Shard:
    return Shard(
        id="shard-00000-of-00001",
        media_type=PARQUET,
        digest=digest_of(b"shard"),
        size=9,
        object_version=None,
        logical_digest=digest_of(b"logical"),
        records=records,
        tokens=0,
        member_set_digest=digest_of(b"members"),
        logical_bytes=9,
        key=None,
    )


_SERIALIZER = Serializer(
    name="shardrel-parquet",
    version=1,
    library="pyarrow",
    library_version="0",
    format_version="2.6",
    data_page_version="1.0",
    page_checksums=True,
    row_group_records=1,
    columns=(),
)

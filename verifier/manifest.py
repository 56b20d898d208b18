"""What the root manifest says, held against itself, its snapshot and its gate. Pure.

Source: schemas/SPEC.md#verification (2, 6)
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from shardrel.errors import ErrorCode
from shardrel.records.gate import GateBody
from shardrel.records.release import Release
from shardrel.records.schema import RecordSchema, StringType
from shardrel.records.snapshot import MemberIndex, Snapshot, SplitTotals
from verifier.tally import Spot


def against_gate(root: str, release: Release, body: GateBody) -> Iterator[Spot]:
    """Dataset, and watermarks that the gate has reached."""
    if release.dataset != body.dataset:
        yield Spot(code=ErrorCode.ROOT_DATASET, subject=root)
    ahead = (
        ("tombstoneWatermark", release.tombstone_watermark, body.tombstones.watermark),
        ("benchmarkFence", release.benchmark_fence, body.benchmarks.watermark),
    )
    for name, own, gate in ahead:
        if own > gate:
            yield Spot(code=ErrorCode.ROOT_AHEAD, subject=root, detail=f"{name} {own}, the gate is at {gate}")


def against_snapshot(root: str, release: Release, snapshot: Snapshot) -> Iterator[Spot]:
    """Everything that a release takes over from its snapshot."""
    pairs = (
        ("dataset", release.dataset, snapshot.dataset),
        ("tombstoneWatermark", release.tombstone_watermark, snapshot.tombstone_watermark),
        ("benchmarkFence", release.benchmark_fence, snapshot.benchmark_fence),
        ("tokenColumn", release.token_column, snapshot.token_column),
        ("textColumns", release.text_columns, snapshot.text_columns),
    )
    for name, own, declared in pairs:
        if own != declared:
            yield Spot(code=ErrorCode.ROOT_SNAPSHOT, subject=root, detail=f"{name} is not the snapshot's")
    if release.record_schema != snapshot.record_schema.digest:
        yield Spot(code=ErrorCode.MEMBER_SCHEMA, subject=root, count=release.totals.records)


def text_columns(release: Release, schema: RecordSchema) -> Iterator[Spot]:
    """Every declared text column is one, or nothing would be screened in its place."""
    texts = {field.name for field in schema.fields if isinstance(field.type, StringType)}
    unknown = [name for name in release.text_columns or () if name not in texts]
    if unknown:
        detail = "textColumns names what is no column of text"
        yield Spot(code=ErrorCode.SNAPSHOT_INVALID, subject=release.dataset_snapshot, count=len(unknown), detail=detail)


def named_objects(root: str, release: Release) -> Iterator[Spot]:
    """Digests that the manifest gives twice must agree."""
    if release.dataset_snapshot != release.objects.snapshot.digest:
        yield Spot(code=ErrorCode.ROOT_SNAPSHOT, subject=root, detail="datasetSnapshot is not the snapshot's digest")
    if release.record_schema != release.objects.record_schema.digest:
        yield Spot(code=ErrorCode.RECORD_SCHEMA, subject=root, detail="recordSchema is not the record schema's digest")


def snapshot_parts(snapshot: Snapshot, subject: str) -> Iterator[Spot]:
    """The parts of a snapshot follow each other and add up."""
    lasts = [part.last_sample_id for part in snapshot.parts]
    if None in lasts or any(a >= b for a, b in pairwise(lasts) if a is not None and b is not None):
        yield Spot(code=ErrorCode.SNAPSHOT_INVALID, subject=subject, detail="the parts do not follow each other")
    if sum(part.records for part in snapshot.parts) != snapshot.records:
        yield Spot(code=ErrorCode.SNAPSHOT_INVALID, subject=subject, detail="the parts do not add up")


def shard_list(root: str, release: Release) -> Iterator[Spot]:
    """Every shard of the sharding is named once, in order of the numbers."""
    count = release.sharding.shards
    expected = [f"shard-{number:05d}-of-{count:05d}" for number in range(min(count, len(release.shards) + 1))]
    if [shard.id for shard in release.shards] != expected:
        yield Spot(code=ErrorCode.ROOT_SHARDS, subject=root, detail=f"{len(release.shards)} named, {count} declared")


def totals(root: str, release: Release, splits: Mapping[str, tuple[int, int]] | None) -> Iterator[Spot]:
    """Totals against the shard list, and by split against what was seen.

    Args:
        splits: Records and tokens by split; None when not every shard could be read.
    """
    own, shards = release.totals, release.shards
    sums = (
        ("shards", own.shards, len(shards)),
        ("records", own.records, sum(shard.records for shard in shards)),
        ("tokens", own.tokens, sum(shard.tokens for shard in shards)),
        ("storedBytes", own.stored_bytes, sum(shard.size for shard in shards)),
        ("logicalBytes", own.logical_bytes, sum(shard.logical_bytes for shard in shards)),
    )
    for name, declared, seen in sums:
        if declared != seen:
            yield Spot(code=ErrorCode.ROOT_TOTALS, subject=root, detail=f"{name}: {seen} seen, {declared} declared")
    if splits is not None:
        seen_splits = {name: SplitTotals(records=records, tokens=tokens) for name, (records, tokens) in splits.items()}
        if seen_splits != own.splits:
            yield Spot(code=ErrorCode.ROOT_TOTALS, subject=root, detail="splits differ from what was seen")


def member_index(index: MemberIndex, release: Release, subject: str) -> Iterator[Spot]:
    """The member index is about this very membership."""
    if index.ordered_member_tuple_root != release.ordered_member_tuple_root:
        yield Spot(code=ErrorCode.MEMBER_INDEX, subject=subject, detail="it names another ordered root")
    if index.records != release.totals.records or sum(part.records for part in index.parts) != index.records:
        yield Spot(code=ErrorCode.MEMBER_INDEX, subject=subject, detail="its parts do not add up to the release")
    lasts = [part.last_sample_id or "" for part in index.parts]
    if any(a > b for a, b in pairwise(lasts)):
        yield Spot(code=ErrorCode.MEMBER_INDEX, subject=subject, detail="its parts do not follow each other")

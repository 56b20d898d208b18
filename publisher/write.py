"""Writing a release whose members are known and in order. Source: schemas/SPEC.md#publish."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future

from publisher.arrange import Placement, Range, place
from publisher.columns import column_encodings, row_group_records
from publisher.declared import Declared
from publisher.encode import serializer_of
from publisher.member_index import index_table, member_index, put_parts
from publisher.options import PublishOptions
from publisher.parallel import in_order
from publisher.root import Written, release_of
from publisher.shards import WrittenShard, sample, write_shard
from publisher.splits import SplitCounter
from publisher.stage import Staged, rows_of
from shardrel.canonical.schema import content_type
from shardrel.digest import to_digest
from shardrel.membership.merkle import MerkleStream, ordered_root
from shardrel.records.release import Objects, Release, Serializer
from shardrel.records.snapshot import Part, SplitTotals
from shardrel.store.objects import put_record
from shardrel.store.port import Store

Progress = Callable[[int, int], None]


def write(
    store: Store,
    staged: Staged,
    ordered: Sequence[Range],
    declared: Declared,
    options: PublishOptions,
    pool: Executor,
    progress: Progress,
) -> tuple[Release, int]:
    """Create shards and member index.

    Args:
        store: Where to.
        staged: The records.
        ordered: Their canonical order, range by range.
        declared: Snapshot and record schema.
        options: Parameters.
        pool: Where shards are encoded.
        progress: Told how many of how many records are written.

    Returns:
        The root manifest, not yet written, and how many shards were there before.

    Effects: Creates shards and parts of the member index in no promised order, then the member index.
    """
    logical_bytes = int(staged.lengths.sum())
    sharding = options.sharding(logical_bytes)
    tree = pool.submit(_tree, staged, ordered)
    placement = place(ordered, staged.leaves, sharding)
    columns = column_encodings(sample(staged, placement.by_shard))
    serializer = serializer_of(columns, row_group_records(logical_bytes, staged.records))
    parts = _index_parts(store, staged, ordered, placement, pool)
    shards = _shards(store, staged, placement, declared, serializer, options, pool, progress)
    root = ordered_root(
        tree.result(), staged.records, declared.snapshot.tombstone_watermark, declared.snapshot.benchmark_fence
    )
    found = tuple(part for some in parts for part in some.result())
    index = put_record(store, member_index(found, to_digest(root)))
    written = Written(
        shards=[one.shard for one in shards],
        splits=_splits(staged),
        ordered_root=to_digest(root),
        objects=Objects(snapshot=declared.snapshot_object, record_schema=declared.schema_object, member_index=index),
        serializer=serializer,
        compression=options.compression,
        sharding=sharding,
    )
    return release_of(declared.snapshot, written), sum(one.already_present for one in shards)


def _tree(staged: Staged, ordered: Sequence[Range]) -> bytes:
    stream = MerkleStream()
    for part in ordered:
        stream.append(rows_of(staged.leaves, part.records))
    return stream.root()


def _shards(
    store: Store,
    staged: Staged,
    placement: Placement,
    declared: Declared,
    serializer: Serializer,
    options: PublishOptions,
    pool: Executor,
    progress: Progress,
) -> list[WrittenShard]:
    kind = content_type(declared.record_schema)

    def one(number: int) -> WrittenShard:
        return write_shard(
            store,
            staged,
            placement.by_shard[number],
            number=number,
            shards=len(placement.by_shard),
            content_type=kind,
            serializer=serializer,
            compression=options.compression,
        )

    done: list[WrittenShard] = []
    records = 0
    for shard in in_order(pool, one, range(len(placement.by_shard)), 2 * options.workers):
        done.append(shard)
        records += shard.shard.records
        progress(records, staged.records)
    return done


def _index_parts(
    store: Store, staged: Staged, ordered: Sequence[Range], placement: Placement, pool: Executor
) -> list[Future[tuple[Part, ...]]]:
    def one(number: int) -> tuple[Part, ...]:
        part = ordered[number]
        leaves = rows_of(staged.leaves, part.records)
        table = index_table(part.members.sample_ids, leaves, placement.shards[number], placement.rows[number])
        return put_parts(store, table)

    return [pool.submit(one, number) for number in range(len(ordered))]


def _splits(staged: Staged) -> dict[str, SplitTotals]:
    counter = SplitCounter()
    for number in range(len(staged.pieces)):
        counter.add(staged.members(number).splits, staged.tokens[staged.starts[number] : staged.starts[number + 1]])
    return counter.totals

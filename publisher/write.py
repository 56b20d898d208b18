"""Writing a release whose members are known and in order. Source: schemas/SPEC.md#publish."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain

import numpy as np

from publisher.arrange import Placement, Range, place
from publisher.columns import column_encodings, row_group_records, sample_positions
from publisher.declared import Declared
from publisher.encode import serializer_of
from publisher.encryption import Encrypting
from publisher.gather import some_records
from publisher.member_index import encode_parts, index_table, member_index, put_encoded
from publisher.options import PublishOptions
from publisher.parallel import in_order, threads
from publisher.root import Written, release_of
from publisher.scatter import Numbers, Scattered, numbers_of, scatter
from publisher.shards import ShardEncoder, WrittenShard, create_shard
from publisher.stage import Staged, rows_of
from shardrel.canonical.schema import content_type
from shardrel.digest import raw_digest, to_digest
from shardrel.errors import ShardrelError
from shardrel.membership.merkle import MerkleStream, ordered_root
from shardrel.records.release import ColumnEncoding, Objects, Release, Sharding
from shardrel.records.snapshot import Part, Snapshot
from shardrel.store.objects import put_record
from shardrel.store.port import Store
from shardrel.trust.sealed_parts import PartsKey

Progress = Callable[[int, int], None]
Created = WrittenShard | tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class _Task:
    """Something to be written.

    Attributes:
        room: What is ahead of it is counted in.
        encode: Makes the bytes of a shard or of parts of the index; what it returns creates them.
    """

    room: int
    encode: Callable[[], Callable[[], Created]]


@dataclass(frozen=True, slots=True)
class _Encoded:
    """The same when its bytes are made."""

    room: int
    create: Callable[[], Created]


# A part of the index is smaller than a shard, as a rule: more of them may be ahead of what is awaited.
_SHARD_ROOM, _PART_ROOM = 2, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which records fall into which shard, and where each of them goes."""

    sharding: Sharding
    numbers: Numbers
    placement: Placement


def shard_numbers(staged: Staged, options: PublishOptions) -> tuple[Sharding, Numbers]:
    """The sharding, and the number of each record's shard, by record number."""
    sharding = options.sharding(int(staged.lengths.sum()))
    return sharding, numbers_of(staged, sharding)


def plan(ordered: Sequence[Range], numbered: tuple[Sharding, Numbers]) -> Plan:
    """Decide it; nothing is moved or written yet, so this need not wait for the comparison with the snapshot."""
    sharding, numbers = numbered
    return Plan(sharding=sharding, numbers=numbers, placement=place(ordered, numbers, sharding.shards))


def write(
    store: Store,
    staged: Staged,
    ordered: Sequence[Range],
    planned: Future[Plan],
    declared: Declared,
    options: PublishOptions,
    pool: Executor,
    progress: Progress,
    approve: Callable[[], None],
) -> tuple[Release, int]:
    """Create shards and member index.

    Args:
        store: Where to.
        staged: The records.
        ordered: Their canonical order, range by range.
        planned: Where they go.
        declared: Snapshot and record schema.
        options: Parameters.
        pool: Where shards and parts are encoded.
        progress: Told how many of how many records are written.
        approve: Called once, before anything is stored. What it raises is said before what is wrong with the plan or with
            the first shards.

    Returns:
        The root manifest, not yet written, and how many shards were there before.

    Effects: Creates shards and parts of the member index in no promised order, then the member index.
    """
    approve = cache(approve)
    if options.encrypt is not None or staged.pieces.any_in_file or not staged.records:
        approve()  # keys are stored, and records moved about, before the first shard is; and some there must be
    try:
        plan = planned.result()
        placement = plan.placement
        cuts = scatter(staged, plan.numbers, pool)
        tree = pool.submit(_tree, staged, ordered, declared.snapshot)
        encrypting = _encrypting(store, declared, options)
        index_key = None if encrypting is None else encrypting.index_key()
        scattered = Scattered(pieces=staged.pieces, cuts=tuple(cuts))
        encoder = _encoder(staged, scattered, placement, declared, options, encrypting)
        tasks = chain(_shards(store, encoder), _index_parts(store, staged, ordered, placement, index_key))
        encoded = in_order(pool, _encode, tasks, _ahead(options), lambda task: task.room)
        first = next(encoded, None)
    except ShardrelError:
        approve()
        raise
    approve()
    encoded = chain([] if first is None else [first], encoded)
    shards, parts = _created(encoded, staged.records, options, progress)
    (tree_root, block_roots), snapshot = tree.result(), declared.snapshot
    root = ordered_root(tree_root, staged.records, snapshot.tombstone_watermark, snapshot.benchmark_fence)
    index = put_record(store, member_index(parts, to_digest(root), block_roots))
    written = Written(
        shards=[one.shard for one in shards],
        splits=staged.splits,
        ordered_root=to_digest(root),
        objects=Objects(snapshot=declared.snapshot_object, record_schema=declared.schema_object, member_index=index),
        serializer=encoder.serializer,
        compression=options.compression,
        sharding=plan.sharding,
        encryption=None if encrypting is None else encrypting.declared(index_key),
    )
    return release_of(snapshot, written), sum(one.already_present for one in shards)


def _encrypting(store: Store, declared: Declared, options: PublishOptions) -> Encrypting | None:
    if options.encrypt is None:
        return None
    snapshot = declared.snapshot_object.digest
    return Encrypting(
        store=store,
        key=options.encrypt,
        publication=options.publication(snapshot),
        dataset=declared.snapshot.dataset,
        snapshot=snapshot,
        schema=declared.schema_object.digest,
        index=options.encrypt_index,
    )


def _tree(staged: Staged, ordered: Sequence[Range], snapshot: Snapshot) -> tuple[bytes, Sequence[bytes]]:
    """Root of the tree, and of its blocks: the snapshot's, where nothing is left out of it."""
    stream = MerkleStream()
    if staged.records == snapshot.records:
        blocks = [raw_digest(root) for root in snapshot.block_roots]
        stream.append(np.frombuffer(b"".join(blocks), np.uint8).reshape(-1, 32))
        return stream.root(), blocks
    for part in ordered:
        stream.append(rows_of(staged.leaves, part.records))
    return stream.root(), stream.block_roots()


def _columns(scattered: Scattered, placement: Placement, packed: Sequence[str]) -> tuple[ColumnEncoding, ...]:
    """Column encodings, which the first shard that has any records decides."""
    shard, records = next((shard, records) for shard, records in enumerate(placement.by_shard) if len(records))
    return column_encodings(some_records(scattered, shard, records, sample_positions(len(records))), packed)


def _encoder(
    staged: Staged,
    scattered: Scattered,
    placement: Placement,
    declared: Declared,
    options: PublishOptions,
    encrypting: Encrypting | None,
) -> ShardEncoder:
    logical_bytes = int(staged.lengths.sum())
    return ShardEncoder(
        staged=staged,
        scattered=scattered,
        by_shard=placement.by_shard,
        content_type=content_type(declared.record_schema),
        serializer=serializer_of(
            _columns(scattered, placement, options.packed), row_group_records(logical_bytes, staged.records)
        ),
        compression=options.compression,
        encrypting=encrypting,
    )


def _ahead(options: PublishOptions) -> int:
    return 2 * options.workers * _SHARD_ROOM


def _shards(store: Store, encoder: ShardEncoder) -> Iterator[_Task]:
    def one(number: int) -> Callable[[], Created]:
        return partial(create_shard, store, encoder.encode(number))

    return (_Task(_SHARD_ROOM, partial(one, number)) for number in range(len(encoder.by_shard)))


def _index_parts(
    store: Store, staged: Staged, ordered: Sequence[Range], placement: Placement, index_key: PartsKey | None
) -> Iterator[_Task]:
    def one(number: int) -> Callable[[], Created]:
        part = ordered[number]
        leaves = rows_of(staged.leaves, part.records)
        table = index_table(part.sample_ids, leaves, placement.shards[number], placement.rows[number])
        return partial(put_encoded, store, encode_parts(table, index_key), index_key)

    # With many more shards than parts, it is the shards that are small.
    room = _PART_ROOM if 2 * len(ordered) >= len(placement.by_shard) else _SHARD_ROOM
    return (_Task(room, partial(one, number)) for number in range(len(ordered)))


def _encode(task: _Task) -> _Encoded:
    return _Encoded(task.room, task.encode())


def _created(
    encoded: Iterator[_Encoded], total: int, options: PublishOptions, progress: Progress
) -> tuple[list[WrittenShard], tuple[Part, ...]]:
    """Shards first: the small parts then fill the threads that have no shard left."""
    shards: list[WrittenShard] = []
    parts: list[Part] = []
    records = 0
    # Threads of their own wait for the store, several for each that encodes, so that the pool has never to wait.
    with threads(2 * options.workers) as writers:
        for made in in_order(writers, lambda one: one.create(), encoded, _ahead(options), lambda one: one.room):
            if isinstance(made, WrittenShard):
                shards.append(made)
                records += made.shard.records
                progress(records, total)
            else:
                parts += made
    return shards, tuple(parts)

"""The hits of a release that was verified before: from its snapshot, or from its shards. Source: schemas/SPEC.md#fence-logs"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from shardrel.errors import ErrorCode, IntegrityError
from shardrel.records.release import Release
from shardrel.records.schema import RecordSchema
from shardrel.records.snapshot import Snapshot
from shardrel.store.objects import get_record
from shardrel.store.port import Store
from verifier import fences
from verifier.encryption import open_snapshot
from verifier.logs import Logs
from verifier.parts import Listed, fetched, read_snapshot_part
from verifier.pool import in_order
from verifier.shard import Scan, screen
from verifier.structure import FlawError
from verifier.tally import Spot, Tally
from verifier.verify import World

Both = tuple[fences.Selectors, fences.Selectors]
"""Of tombstones and of benchmarks."""
Item = TypeVar("Item")


def count_hits(store: Store, release: Release, logs: Logs, selectors: Both, world: World, tally: Tally) -> None:
    """Hits of these selectors; where any selects by text all shards are read, else the parts of the snapshot alone.

    Only there the tally gets to know which entries they are of.

    Raises:
        IntegrityError, NotFoundError, FormatError, RefusedError: What the release leads to cannot be read.
        UnavailableError: The store does not answer.
    """
    if all(chosen.empty for chosen in selectors):
        return
    snapshot = get_record(store, release.objects.snapshot, Snapshot)
    tally.nameless = tally.nameless or snapshot.encryption is not None
    if any(chosen.by_text for chosen in selectors):
        _in_shards(store, release, selectors, world, tally)
    else:
        _in_snapshot(store, release, snapshot, logs, selectors, world, tally)


def _in_shards(store: Store, release: Release, selectors: Both, world: World, tally: Tally) -> None:
    world.unlocked.check(release.encryption)
    scan = Scan(
        store=store,
        release=release,
        schema=get_record(store, release.objects.record_schema, RecordSchema),
        tombstones=selectors[0],
        benchmarks=selectors[1],
        unlocked=world.unlocked,
    )
    _each(release.shards, lambda shard: tally.add(screen(scan, shard)), world)


def _in_snapshot(
    store: Store, release: Release, snapshot: Snapshot, logs: Logs, selectors: Both, world: World, tally: Tally
) -> None:
    world.unlocked.check(snapshot.encryption)
    try:
        snapshot, parts_key = open_snapshot(snapshot, world.unlocked)
    except FlawError as flaw:
        raise IntegrityError(flaw.code, flaw.detail, snapshot=release.dataset_snapshot) from flaw
    left_out = fences.left_out(logs, release.tombstone_watermark, release.benchmark_fence)
    tally.entries = (set(), set())
    lowers = [None, *(part.last_sample_id for part in snapshot.parts)]

    def look(number: int) -> None:
        part, lower = snapshot.parts[number], lowers[number]
        near = [fences.in_range(chosen, lower, part.last_sample_id) for chosen in selectors]
        if not any(near):
            return
        try:
            listed = read_snapshot_part(partial(fetched, store), part, lower, parts_key)
        except FlawError as flaw:
            tally.add([Spot(code=flaw.code, subject=release.dataset_snapshot, detail=flaw.detail)])
            return
        for code, hit in _hits(listed, left_out, selectors):
            first = hit.ids[0].as_py()
            tally.add([Spot(code=code, subject=release.dataset_snapshot, count=len(hit), sample_id=first)])
            tombstoned = code is ErrorCode.TOMBSTONE_HIT
            tally.name(code, fences.naming(logs.tombstones if tombstoned else logs.benchmarks, hit))

    _each(range(len(snapshot.parts)), look, world)


def _hits(listed: Listed, left_out: Both, selectors: Both) -> Iterator[tuple[ErrorCode, Listed]]:
    named = [fences.named((chosen,), listed) for chosen in selectors]
    if not any(mask.any() for mask in named):
        return
    released = ~fences.named(left_out, listed)
    for code, mask in zip((ErrorCode.TOMBSTONE_HIT, ErrorCode.BENCHMARK_HIT), named, strict=True):
        hit = mask & released
        if hit.any():
            yield code, listed.where(hit)


def _each(items: Sequence[Item], look: Callable[[Item], None], world: World) -> None:
    with ThreadPoolExecutor(world.workers) as pool:
        for done, _ in enumerate(in_order(pool, look, items, 2 * world.workers), start=1):
            world.progress(done, len(items))

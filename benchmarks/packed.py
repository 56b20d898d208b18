"""What packed columns save: the same release with packed and with native lists, both sides in turn.

``publish`` and ``verify`` are the whole verbs; ``open`` is what a training host does with every shard that it sees
first. ``stored`` are bytes. All are packed ÷ native.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import count as numbers
from pathlib import Path

from benchmarks.inputs import write_images, write_ipc
from benchmarks.measure import note, pairs
from benchmarks.release import Place, declare, place, publish_once, verify_once
from shardrel.canonical.json import decode
from shardrel.data.cache import ShardCache
from shardrel.data.decoded import DecodedCache, ShardEntry
from shardrel.records.release import Release
from shardrel.records.schema import RecordSchema
from shardrel.store.objects import get_by_digest, get_record

COLUMN = {"tokens": "tokens", "images": "image"}
RECORDS = {"tokens": 10_000, "images": 1_000}


def measure_packed(*, quick: bool) -> dict[str, object]:
    """Ratios of packed to native."""
    shards, count = (2, 3) if quick else (4, 7)
    results: dict[str, object] = {}
    for kind in RECORDS:
        with tempfile.TemporaryDirectory(prefix="shardrel-bench-") as name:
            for what, value in _one(kind, Path(name), shards, count):
                results[f"packed.{kind}.{what}"] = value
                note(f"packed.{kind}.{what}: {value}")
    return results


def _one(kind: str, folder: Path, shards: int, count: int) -> Iterator[tuple[str, object]]:
    source, keys = folder / "source.arrow", folder / "keys"
    if kind == "images":
        write_images(source, shards * RECORDS[kind])
    else:
        write_ipc(source, kind, shards, RECORDS[kind])
    at = place(folder / "empty", keys)
    snapshot = declare(at, source, "tokens" if kind == "tokens" else None)
    fresh, target, packed = numbers(), folder / "target", (COLUMN[kind],)

    def ready() -> None:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folder / "empty", target)

    def publish(columns: tuple[str, ...]) -> Callable[[], object]:
        return lambda: publish_once(place(target, keys), snapshot, source, shards, packed=columns)

    yield "publish", pairs(publish(packed), publish(()), count, ready).summary()
    ours, native = (publish_once(at, snapshot, source, shards, packed=columns) for columns in (packed, ()))
    yield "stored", round(ours.stored_bytes / native.stored_bytes, 3)
    yield "verify", pairs(lambda: verify_once(at, ours.root), lambda: verify_once(at, native.root), count).summary()

    def first(root: str) -> Callable[[], None]:
        def run() -> None:
            cache = folder / f"cache-{next(fresh)}"
            _open_all(at, root, cache)
            shutil.rmtree(cache)

        return run

    yield "open", pairs(first(ours.root), first(native.root), count).summary()


def _open_all(at: Place, root: str, folder: Path) -> None:
    release = decode(get_by_digest(at.store, root), Release)
    schema = get_record(at.store, release.objects.record_schema, RecordSchema)
    cache = DecodedCache(ShardCache(folder, at.store))
    for shard in release.shards:
        cache.open(ShardEntry(shard=shard, schema=schema), schema.fields, None)

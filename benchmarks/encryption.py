"""What encryption costs: the same release plain and encrypted, both sides in turn.

``publish`` and ``verify`` are the whole verbs. ``open`` is what a training host does with a shard that it has fetched:
for the first time, and again, where a plain shard lies decoded on the host and an encrypted one is decoded anew.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import count as numbers
from pathlib import Path

from benchmarks.inputs import write_ipc
from benchmarks.measure import note, pairs
from benchmarks.release import Place, declare, place, publish_once, verify_once
from shardrel.canonical.json import decode
from shardrel.data.cache import ShardCache
from shardrel.data.decoded import DecodedCache, ShardEntry
from shardrel.data.encryption import ReleaseLocks
from shardrel.records.release import Release
from shardrel.records.schema import RecordSchema
from shardrel.store.objects import get_by_digest, get_record
from shardrel.trust.aead import fresh_key
from shardrel.trust.key_encryption import Unlocked
from shardrel.trust.key_files import FileKey

RECORDS = {"tokens": 10_000, "small": 200_000}
TOKEN_COLUMN = {"tokens": "tokens", "small": None}


def measure_encryption(*, quick: bool) -> dict[str, object]:
    """Ratios of encrypted to plain; those of token sequences have no kind in their name."""
    shards, count = (2, 3) if quick else (4, 7)
    results: dict[str, object] = {}
    for kind in RECORDS:
        with tempfile.TemporaryDirectory(prefix="shardrel-bench-") as name:
            for what, summary in _one(kind, Path(name), shards, count):
                key = f"encryption.{what}" if kind == "tokens" else f"encryption.{kind}.{what}"
                results[key] = summary
                results[f"{key}.ratio"] = summary["ratio"]
                note(f"{key}: {summary}")
    return results


def _one(kind: str, folder: Path, shards: int, count: int) -> Iterator[tuple[str, dict[str, object]]]:
    source, keys = folder / "source.arrow", folder / "keys"
    write_ipc(source, kind, shards, RECORDS[kind])
    key = FileKey(version="1", key=fresh_key())
    empty = place(folder / "empty", keys)
    snapshot = declare(empty, source, TOKEN_COLUMN[kind])
    fresh, target = numbers(), folder / "target"

    def ready() -> None:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folder / "empty", target)

    def publish(encrypt: FileKey | None) -> Callable[[], object]:
        return lambda: publish_once(place(target, keys), snapshot, source, shards, encrypt)

    yield "publish", pairs(publish(key), publish(None), count, ready).summary()
    at = place(folder / "empty", keys)
    plain, sealed = (publish_once(at, snapshot, source, shards, encrypt).root for encrypt in (None, key))
    yield "verify", pairs(lambda: verify_once(at, sealed, key), lambda: verify_once(at, plain), count).summary()

    def first(root: str) -> Callable[[], None]:
        def run() -> None:
            cache = folder / f"cache-{next(fresh)}"
            _open_all(at, root, cache, key)
            shutil.rmtree(cache)

        return run

    yield "open_first", pairs(first(sealed), first(plain), count).summary()
    again = folder / "cache"
    yield (
        "open_again",
        pairs(lambda: _open_all(at, sealed, again, key), lambda: _open_all(at, plain, again, key), count).summary(),
    )


def _open_all(at: Place, root: str, folder: Path, key: FileKey) -> None:
    """Open every shard with all of its columns."""
    release = decode(get_by_digest(at.store, root), Release)
    schema = get_record(at.store, release.objects.record_schema, RecordSchema)
    locks = ReleaseLocks(release=release, unlocked=Unlocked([key]))
    cache = DecodedCache(ShardCache(folder, at.store))
    for shard in release.shards:
        cache.open(ShardEntry(shard=shard, schema=schema, locks=locks), schema.fields, None)

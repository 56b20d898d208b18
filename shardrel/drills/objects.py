"""Drills in which bytes are not what the root says, whoever is to blame."""

import os

import pyarrow as pa
from msgspec.structs import replace

from shardrel.data.cache import ShardCache
from shardrel.data.shards import shard_descriptor
from shardrel.digest import digest_of, raw_digest
from shardrel.drills.drill import NOTHING, Codes, Drill
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.drills.forge import parquet_bytes
from shardrel.drills.scratch import RECORDS, Scratch, records_table
from shardrel.errors import ErrorCode
from shardrel.records.release import Shard
from shardrel.store.layout import object_key

# More than any shard here, so that reading on past the declared size would show.
_ENDLESS = 1024 * 1024


def _truncated(scratch: Scratch) -> Codes:
    """Verify while the store cuts one shard's body short."""
    scene, root = scratch.released("truncated-shard")
    key = object_key(scene.release(root).shards[0].digest)
    cutting = FaultyStore(scene.store, [Rule(operation="read", prefix=key, fault=Fault.TRUNCATED, times=None)])
    report = scene.behind(cutting).verify(root)
    return sorted({finding.code for finding in report.findings}) or [NOTHING]


def _swapped(scratch: Scratch) -> Codes:
    """Two shards trade their objects; what the root declares of the records stays."""
    scene, root = scratch.released("swapped-shards")
    forgery = scene.forgery(root)
    first, second = forgery.release.shards
    forgery.declare(0, _with_object_of(first, second))
    forgery.declare(1, _with_object_of(second, first))
    return scene.judged(scene.seal(forgery))


def _with_object_of(entry: Shard, other: Shard) -> Shard:
    return replace(entry, digest=other.digest, size=other.size, object_version=other.object_version)


def _reordered(scratch: Scratch) -> Codes:
    """Two shards change places, each with its digests and its id."""
    scene, root = scratch.released("reordered-shards")
    forgery = scene.forgery(root)
    forgery.release = replace(forgery.release, shards=forgery.release.shards[::-1])
    return scene.judged(scene.seal(forgery))


def _endless(scratch: Scratch) -> Codes:
    """The object under a shard's digest goes on behind the size that the root declares."""
    scene, root = scratch.released("endless-data")
    forgery = scene.forgery(root)
    honest = forgery.release.shards[0]
    forgery.put_shard(0, forgery.shard_bytes(0) + bytes(_ENDLESS))
    forgery.declare(0, replace(forgery.release.shards[0], size=honest.size))
    return scene.judged(scene.seal(forgery))


def _of_two_schemas(scratch: Scratch) -> Codes:
    """One shard holds 32-bit numbers where the record schema says 64."""
    scene, root = scratch.released("mixed-schemas")
    forgery = scene.forgery(root)
    table = forgery.shard_table(0)
    place = table.schema.get_field_index("score")
    single = table.column("score").cast(pa.float32(), safe=False)
    forgery.put_shard(0, parquet_bytes(table.set_column(place, "score", single)))
    return scene.judged(scene.seal(forgery))


def _extraneous(scratch: Scratch) -> Codes:
    """One shard brings a column that the record schema does not have."""
    scene, root = scratch.released("extraneous-dependencies")
    forgery = scene.forgery(root)
    table = forgery.shard_table(0)
    forgery.put_shard(0, parquet_bytes(table.append_column("more", table.column("score"))))
    return scene.judged(scene.seal(forgery))


def _old_cache(scratch: Scratch) -> Codes:
    """A host's cache holds another release's shard under the address of this one's."""
    scene, root = scratch.released("old-cache")
    old = scene.forgery(scene.publish(records_table(2 * RECORDS)))
    wanted = shard_descriptor(scene.release(root).shards[0])
    cache = ShardCache(scratch.folder / "old-cache", scene.store)
    cache.read(wanted)
    name = raw_digest(wanted.digest).hex()
    entry = cache.folder / "sha256" / name[:2] / name
    os.chmod(entry, 0o600)
    entry.write_bytes(old.shard_bytes(0))
    served = cache.read(wanted)
    return [ErrorCode.CACHE_CORRUPT] if cache.corrupt == 1 and digest_of(served) == wanted.digest else [NOTHING]


DRILLS: tuple[Drill, ...] = (
    Drill(
        name="truncated-shard",
        about="A shard's body ends early, as after a broken transfer.",
        fault="The store gives the first half of one shard's bytes.",
        attack="truncation",
        expected=ErrorCode.STORAGE_SIZE,
        section="descriptor",
        conduct=_truncated,
    ),
    Drill(
        name="swapped-shards",
        about="A shard's object is another shard's.",
        fault="The root names each of two shards' objects, of as many records, in the other's entry; signed anew.",
        attack="swapping",
        expected=ErrorCode.LOGICAL_DIGEST,
        section="shard-stream",
        conduct=_swapped,
    ),
    Drill(
        name="reordered-shards",
        about="Two shards stand in each other's place.",
        fault="The root lists its shards in another order; everything above made anew.",
        attack="reordering",
        expected=ErrorCode.ROOT_SHARDS,
        section="root-manifest",
        conduct=_reordered,
    ),
    Drill(
        name="endless-data",
        about="An object has no end, to exhaust whoever reads it.",
        fault="The object under a shard's digest is a megabyte longer than the root says.",
        attack="endless data (TUF)",
        expected=ErrorCode.STORAGE_TOO_LARGE,
        section="descriptor",
        conduct=_endless,
    ),
    Drill(
        name="mixed-schemas",
        about="One shard was written with another record schema.",
        fault="A column of 64-bit numbers is one of 32 bits in one shard.",
        attack="schema confusion",
        expected=ErrorCode.RECORD_SCHEMA,
        section="physical-types",
        conduct=_of_two_schemas,
    ),
    Drill(
        name="extraneous-dependencies",
        about="A shard brings along what nobody declared.",
        fault="One shard has a column more than the record schema.",
        attack="extraneous dependencies (TUF)",
        expected=ErrorCode.RECORD_SCHEMA,
        section="shards",
        conduct=_extraneous,
    ),
    Drill(
        name="old-cache",
        about="A host's cache holds old bytes under an unchanged address.",
        fault="The cached shard is overwritten with one of another release.",
        attack="stale cache",
        expected=ErrorCode.CACHE_CORRUPT,
        section="runs",
        conduct=_old_cache,
    ),
)

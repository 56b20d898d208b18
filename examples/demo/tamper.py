"""Three ways to tamper with a release, each by somebody who may write to the bucket."""

import os
import random
from pathlib import Path

import msgspec

from shardrel.canonical import json
from shardrel.data.shards import shard_descriptor
from shardrel.records.release import Release
from shardrel.records.snapshot import MemberIndex
from shardrel.store.layout import object_key
from shardrel.store.objects import get, get_by_digest, put, put_record
from shardrel.store.open import open_store


def read_release(store: Path, root: str) -> Release:
    """The root manifest as it lies in a store."""
    return json.decode(get_by_digest(open_store(str(store)), root), Release)


def flip_a_byte(store: Path, root: str, seed: int) -> str:
    """Flip one bit somewhere in one shard file.

    Returns:
        The shard's id.
    """
    choice = random.Random(seed)
    shard = choice.choice(read_release(store, root).shards)
    path = store / object_key(shard.digest)
    data = bytearray(path.read_bytes())
    data[choice.randrange(len(data))] ^= 1 << choice.randrange(8)
    os.chmod(path, 0o600)
    path.write_bytes(data)
    return shard.id


def drop_a_shard(store: Path, root: str) -> str:
    """Leave the last shard's descriptor out of the root, and name the result by its new digest."""
    release = read_release(store, root)
    return put_record(open_store(str(store)), msgspec.structs.replace(release, shards=release.shards[:-1])).digest


def graft(store: Path, root: str, forged_store: Path, forged_root: str) -> str:
    """Pass a release of other content off as one of the declared snapshot.

    The forged release is sound in itself, since a publisher made it: shard digests, logical digests, member sets and
    the ordered root all fit its content. Only the snapshot that it names is then replaced by the honest one.
    """
    honest, forged = read_release(store, root), read_release(forged_store, forged_root)
    source, target = open_store(str(forged_store)), open_store(str(store))
    index = json.decode(get(source, forged.objects.member_index), MemberIndex)
    wanted = [
        *map(shard_descriptor, forged.shards),
        forged.objects.member_index,
        *[part.object for part in index.parts],
    ]
    for descriptor in wanted:
        put(target, get(source, descriptor), descriptor.media_type)
    objects = msgspec.structs.replace(forged.objects, snapshot=honest.objects.snapshot)
    grafted = msgspec.structs.replace(forged, dataset_snapshot=honest.dataset_snapshot, objects=objects)
    return put_record(target, grafted).digest

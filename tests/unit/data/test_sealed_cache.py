"""Decoded entries of an encrypted release: made once, opened by their key, made anew where they were changed."""

from pathlib import Path

import pytest

from shardrel.data.cache import ShardCache
from shardrel.data.decoded import DecodedCache, ShardEntry
from shardrel.data.encryption import ReleaseLocks
from shardrel.errors import ErrorCode, ShardrelError
from shardrel.trust.key_encryption import KeyEncryption, Unlocked
from tests.support.encrypted import Encrypted, a_key, an_encrypted_release


def entry_of(built: Encrypted, *keys: KeyEncryption) -> ShardEntry:
    locks = ReleaseLocks(release=built.release, unlocked=Unlocked(keys))
    return ShardEntry(shard=built.release.shards[0], schema=built.schema, locks=locks)


def opened(cache: DecodedCache, entry: ShardEntry) -> list[object]:
    shard = cache.open(entry, entry.schema.fields, "train")
    return [shard.samples, *(column.array.to_pylist() for column in shard.columns)]


def entries(folder: Path) -> list[Path]:
    return [path for path in (folder / "decoded").rglob("*") if path.is_file()]


def test_an_entry_is_made_once(tmp_path: Path) -> None:
    built = an_encrypted_release()
    cache = DecodedCache(ShardCache(tmp_path, built.store))
    entry = entry_of(built, built.key)
    first = opened(cache, entry)
    assert [opened(cache, entry), cache.made, len(entries(tmp_path))] == [first, 1, 1]


@pytest.mark.parametrize("at", [0, 40, -1])
def test_a_changed_entry_is_set_aside_and_made_anew(tmp_path: Path, at: int) -> None:
    built = an_encrypted_release()
    cache = DecodedCache(ShardCache(tmp_path, built.store))
    entry = entry_of(built, built.key)
    first = opened(cache, entry)
    [path] = entries(tmp_path)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert [opened(cache, entry), cache.made, cache.cache.corrupt] == [first, 2, 1]


@pytest.mark.parametrize(("keys", "code"), [([], ErrorCode.ENCRYPTION_READER), ([a_key()], ErrorCode.ENCRYPTION_KEY)])
def test_what_lies_on_the_host_is_of_no_use_without_the_key(
    tmp_path: Path, keys: list[KeyEncryption], code: ErrorCode
) -> None:
    built = an_encrypted_release()
    cache = DecodedCache(ShardCache(tmp_path, built.store))
    opened(cache, entry_of(built, built.key))
    with pytest.raises(ShardrelError) as caught:
        opened(cache, entry_of(built, *keys))
    assert caught.value.code == code
    [path] = entries(tmp_path)
    assert b"ARROW1" not in path.read_bytes()

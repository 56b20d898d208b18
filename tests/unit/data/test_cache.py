"""The cache of a host never serves bytes that are not what their name says."""

from pathlib import Path

import pytest

from shardrel.data.cache import ShardCache
from shardrel.digest import raw_digest
from shardrel.errors import ErrorCode, IntegrityError, NotFoundError
from shardrel.records.descriptor import PARQUET, Descriptor
from shardrel.store.layout import object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import put

DATA = b"bytes of a shard" * 100


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def descriptor(store: MemoryStore) -> Descriptor:
    return put(store, DATA, PARQUET)[0]


def entry(folder: Path, descriptor: Descriptor) -> Path:
    name = raw_digest(descriptor.digest).hex()
    return folder / "sha256" / name[:2] / name


def without_store(folder: Path) -> ShardCache:
    return ShardCache(folder, MemoryStore())


def test_a_second_reader_needs_no_store(tmp_path: Path, store: MemoryStore, descriptor: Descriptor) -> None:
    assert ShardCache(tmp_path, store).read(descriptor) == DATA
    assert without_store(tmp_path).read(descriptor) == DATA


@pytest.mark.parametrize(
    "bad", [b"", DATA[:-1], DATA + b"x", b"B" + DATA[1:]], ids=["empty", "short", "long", "flipped"]
)
def test_a_corrupt_entry_is_set_aside_and_fetched_again(
    tmp_path: Path, store: MemoryStore, descriptor: Descriptor, bad: bytes
) -> None:
    cache = ShardCache(tmp_path, store)
    cache.read(descriptor)
    entry(tmp_path, descriptor).write_bytes(bad)
    assert cache.read(descriptor) == DATA
    assert cache.corrupt == 1
    assert entry(tmp_path, descriptor).read_bytes() == DATA
    assert [file.read_bytes() for file in (tmp_path / "quarantine").iterdir()] == [bad]


def test_a_corrupt_entry_without_a_good_copy_is_never_served(tmp_path: Path, descriptor: Descriptor) -> None:
    path = entry(tmp_path, descriptor)
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA[:-1])
    with pytest.raises(NotFoundError) as caught:
        without_store(tmp_path).read(descriptor)
    assert caught.value.code == ErrorCode.STORAGE_ABSENT
    assert not path.exists()


def test_bytes_of_the_store_are_checked_before_they_get_a_name(tmp_path: Path, descriptor: Descriptor) -> None:
    wrong = MemoryStore()
    wrong.create(object_key(descriptor.digest), b"B" + DATA[1:])
    unversioned = Descriptor(media_type=PARQUET, digest=descriptor.digest, size=descriptor.size)
    with pytest.raises(IntegrityError) as caught:
        ShardCache(tmp_path, wrong).read(unversioned)
    assert caught.value.code == ErrorCode.STORAGE_DIGEST
    assert not entry(tmp_path, descriptor).exists()


def test_a_part_that_a_killed_fetch_left_is_not_an_entry(
    tmp_path: Path, store: MemoryStore, descriptor: Descriptor
) -> None:
    path = entry(tmp_path, descriptor)
    path.parent.mkdir(parents=True)
    path.with_name(path.name + ".0123.part").write_bytes(DATA[:5])
    assert ShardCache(tmp_path, store).read(descriptor) == DATA

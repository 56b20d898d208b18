"""The folder of a host: bounded, leased, safe among processes and after a kill; decoded shards are proven and checked."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shardrel.data.cache import ShardCache
from shardrel.data.decoded import DecodedCache, ShardEntry, entry_name
from shardrel.data.folder import CacheFolder
from shardrel.data.shards import select_fields
from shardrel.errors import ErrorCode, IntegrityError
from shardrel.records.descriptor import PARQUET, Descriptor
from shardrel.records.schema import RecordSchema
from shardrel.store.local import LocalStore
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_record, put
from tests.support.training import TrainingWorld, training_world

SIZE = 1000


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def objects(store: MemoryStore) -> list[Descriptor]:
    return [put(store, bytes([n]) * SIZE, PARQUET)[0] for n in range(6)]


def held(cache: ShardCache) -> set[str]:
    return {path.name for path in (cache.folder / "sha256").rglob("*") if path.is_file()}


def names(objects: list[Descriptor]) -> set[str]:
    return {one.digest.removeprefix("sha256:") for one in objects}


def test_what_was_used_longest_ago_makes_room(tmp_path: Path, store: MemoryStore, objects: list[Descriptor]) -> None:
    cache = ShardCache(tmp_path, store, limit=3 * SIZE)
    for one in objects[:3]:
        cache.read(one)
    cache.read(objects[0])
    cache.read(objects[3])
    assert held(cache) == names([objects[2], objects[0], objects[3]])
    assert (cache.files.evicted, cache.fetched) == (1, 4 * SIZE)


def test_what_is_in_use_is_never_taken(tmp_path: Path, store: MemoryStore, objects: list[Descriptor]) -> None:
    cache = ShardCache(tmp_path, store, limit=2 * SIZE)
    cache.read(objects[0])
    path = cache.files.path("sha256", next(iter(held(cache))))
    mapped = cache.files.map(path)
    assert mapped is not None
    for one in objects[1:]:
        cache.read(one)
        assert path.exists()
    assert len(held(cache)) == 2
    assert bytes(mapped.data) == bytes([0]) * SIZE
    del mapped
    cache.read(objects[1])
    cache.read(objects[2])
    assert not path.exists()


def test_what_was_set_aside_goes_first(tmp_path: Path, store: MemoryStore, objects: list[Descriptor]) -> None:
    cache = ShardCache(tmp_path, store, limit=3 * SIZE)
    cache.read(objects[0])
    cache.files.path("sha256", next(iter(held(cache)))).write_bytes(b"x" * SIZE)
    cache.read(objects[0])
    assert len(list((tmp_path / "quarantine").iterdir())) == 1
    cache.read(objects[1])
    cache.read(objects[2])
    assert list((tmp_path / "quarantine").iterdir()) == []
    assert held(cache) == names(objects[:3])


HOLDER = """
import sys
from pathlib import Path
from shardrel.data.folder import CacheFolder
folder = CacheFolder(Path(sys.argv[1]), 10_000)
def hang(file):
    file.write(b"x" * 500)
    file.flush()
    print("ready", flush=True)
    sys.stdin.read()
if sys.argv[2] == "write":
    folder.install(folder.path("sha256", "ab" * 32), 500, hang)
mapped = folder.map(folder.path("sha256", "cd" * 32))
print("ready", flush=True)
sys.stdin.read()
"""


def another_process(folder: Path, what: str) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), what], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_another_process_keeps_what_it_maps_until_it_is_killed(tmp_path: Path) -> None:
    folder = CacheFolder(tmp_path, 1000)
    path = folder.path("sha256", "cd" * 32)
    folder.install(path, 900, lambda file: file.write(bytes(900)))
    holder = another_process(tmp_path, "map")
    folder.make_room(900)
    assert path.exists()
    end(holder)
    folder.make_room(900)
    assert not path.exists()


def test_a_killed_writer_leaves_a_part_that_the_next_one_removes(tmp_path: Path) -> None:
    folder = CacheFolder(tmp_path, 1_000_000)
    writer = another_process(tmp_path, "write")
    part = next((tmp_path / "sha256" / "ab").iterdir())
    assert part.name.endswith(".part")
    folder.make_room(0)
    assert part.exists()
    end(writer)
    folder.make_room(0)
    assert not part.exists()
    assert folder.open(folder.path("sha256", "ab" * 32)) is None


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TrainingWorld:
    folder = tmp_path_factory.mktemp("source")
    return training_world(LocalStore(str(folder / "store")), folder)


@pytest.fixture(scope="module")
def schema(world: TrainingWorld) -> RecordSchema:
    return get_record(world.store, world.release.objects.record_schema, RecordSchema)


class Host:
    """A decoded cache over a folder and one entry of it."""

    def __init__(self, world: TrainingWorld, schema: RecordSchema, folder: Path, limit: int | None = None) -> None:
        self.cache = ShardCache(folder, world.store, limit=limit)
        self.decoded = DecodedCache(self.cache)
        self.entry = ShardEntry(shard=world.release.shards[0], schema=schema)
        self.fields = select_fields(schema, ("text",))
        self.path = self.cache.files.path("decoded", entry_name(self.entry.shard, self.fields, "train"))

    def texts(self) -> list[Any]:
        return list(self.decoded.open(self.entry, self.fields, "train").columns[0].logical().to_pylist())


def test_a_decoded_shard_is_made_once_a_host(world: TrainingWorld, schema: RecordSchema, tmp_path: Path) -> None:
    first, second = (Host(world, schema, tmp_path) for _ in range(2))
    texts = first.texts()
    assert len(texts) > 0
    assert second.texts() == texts
    assert (first.decoded.made, second.decoded.made, second.cache.fetched) == (1, 0, 0)
    assert first.path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("at", [0, 20, 50, 64, -300, -1])
@pytest.mark.parametrize("again", [False, True], ids=["another process", "the same process"])
def test_a_changed_decoded_file_is_set_aside_and_made_anew(
    world: TrainingWorld, schema: RecordSchema, tmp_path: Path, at: int, again: bool
) -> None:
    host = Host(world, schema, tmp_path)
    texts = host.texts()
    data = bytearray(host.path.read_bytes())
    data[at] ^= 1
    host.path.write_bytes(data)
    other = host if again else Host(world, schema, tmp_path)
    assert other.texts() == texts
    assert other.cache.corrupt == 1
    assert len(list((tmp_path / "quarantine").iterdir())) == 1


@pytest.mark.parametrize("bad", [b"", b"shardrel/decoded", b"x" * 100], ids=["empty", "short", "other"])
def test_what_is_no_decoded_file_is_set_aside(
    world: TrainingWorld, schema: RecordSchema, tmp_path: Path, bad: bytes
) -> None:
    host = Host(world, schema, tmp_path)
    host.path.parent.mkdir(parents=True)
    host.path.write_bytes(bad)
    assert len(host.texts()) > 0
    assert host.cache.corrupt == 1


def test_a_file_that_others_may_write_is_not_believed(
    world: TrainingWorld, schema: RecordSchema, tmp_path: Path
) -> None:
    Host(world, schema, tmp_path).texts()
    host = Host(world, schema, tmp_path)
    host.path.chmod(0o620)
    assert len(host.texts()) > 0
    assert (host.cache.corrupt, host.decoded.made) == (1, 1)


def test_an_entry_of_another_shard_under_the_name_is_not_believed(
    world: TrainingWorld, schema: RecordSchema, tmp_path: Path
) -> None:
    host, other = Host(world, schema, tmp_path), Host(world, schema, tmp_path)
    other.entry = ShardEntry(shard=world.release.shards[1], schema=schema)
    other.path = other.cache.files.path("decoded", entry_name(other.entry.shard, other.fields, "train"))
    texts, others = host.texts(), other.texts()
    host.path.write_bytes(other.path.read_bytes())
    assert Host(world, schema, tmp_path).texts() == texts != others


def test_records_that_are_not_those_of_the_release_are_refused(
    world: TrainingWorld, schema: RecordSchema, tmp_path: Path
) -> None:
    host = Host(world, schema, tmp_path)
    wrong = host.entry.shard.__class__(
        **{name: getattr(host.entry.shard, name) for name in host.entry.shard.__struct_fields__}
        | {"logical_digest": world.release.shards[1].logical_digest}
    )
    host.entry = ShardEntry(shard=wrong, schema=schema)
    with pytest.raises(IntegrityError) as caught:
        host.texts()
    assert caught.value.code == ErrorCode.LOGICAL_DIGEST
    assert not host.path.exists()


READER = """
import sys
from pathlib import Path
from shardrel.canonical.json import decode
from shardrel.data.cache import ShardCache
from shardrel.data.decoded import DecodedCache, ShardEntry
from shardrel.data.shards import select_fields
from shardrel.records.release import Release
from shardrel.records.schema import RecordSchema
from shardrel.store.local import LocalStore
from shardrel.store.objects import get_by_digest, get_record
folder, store, root = sys.argv[1:]
store = LocalStore(store)
release = decode(get_by_digest(store, root), Release)
schema = get_record(store, release.objects.record_schema, RecordSchema)
cache = ShardCache(Path(folder), store, limit=15_000)
fields = select_fields(schema, ("text", "number"))
for _ in range(3):
    for shard in release.shards:
        opened = DecodedCache(cache).open(ShardEntry(shard=shard, schema=schema), fields, None)
        assert opened.samples == shard.records
assert cache.corrupt == 0
"""


def test_processes_that_evict_each_others_entries_all_read_the_right_bytes(
    world: TrainingWorld, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", READER, str(tmp_path), world.store.url.removeprefix("file://"), world.root]
    readers = [subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}) for _ in range(2)]
    killed = subprocess.Popen(command)
    try:
        killed.wait(timeout=1.5)
    except subprocess.TimeoutExpired:
        end(killed)
    assert [reader.wait(timeout=120) for reader in readers] == [0, 0]

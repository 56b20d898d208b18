"""An encrypted publish that is killed at any store operation goes on with the data keys that it had stored."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from publisher.options import PublishOptions
from shardrel.canonical import json
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.errors import ErrorCode, OutcomeUnknownError, ShardrelError
from shardrel.gate.view import read_gate
from shardrel.records.encryption import WrappedKey
from shardrel.store.local import LocalStore
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Store
from shardrel.trust.key_encryption import Unlocked
from shardrel.trust.key_files import FileKey, make_key_file
from tests.support.encrypted import a_key, publish_with
from tests.support.publishing import Publishing, records_table, write_source
from tests.support.release_builder import a_world
from verifier.verify import verify_release

DRIVER = Path(__file__).parents[1] / "support" / "publish_driver.py"

# Of 19 writes: the pin's intent, envelope and swap (3), the key of the index (4), four keys, four shards and a part of
# the index, each shard behind its key (13), the index (14), the root (15), provenance (16), and the end's three (19).
WRITES = 19
POINTS = [("after", 4), ("after", 6), ("before", 12), ("after", 15)]
OTHERS = [(when, k) for k in range(1, WRITES + 1) for when in ("before", "after") if (when, k) not in POINTS]


@dataclass(frozen=True, kw_only=True)
class Ready:
    folder: Path
    publishing: Publishing
    snapshot: str
    source: Path
    kek: Path
    key: FileKey


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Ready:
    folder = tmp_path_factory.mktemp("publish")
    publishing = Publishing(store=LocalStore(folder / "store"))
    publishing.init()
    source = write_source(folder / "a.arrow", records_table(200))
    (folder / "key.pem").write_bytes(publishing.keys["publisher"].to_pem())
    path, key = make_key_file(folder / "keys", "kek")
    snapshot = publishing.snapshot(source)
    return Ready(folder=folder, publishing=publishing, snapshot=snapshot, source=source, kek=path, key=key)


def run(ready: Ready, store: Path, when: str, k: int) -> subprocess.CompletedProcess[str]:
    words = [store, ready.folder / "key.pem", ready.snapshot, ready.source, when, k, ready.kek]
    environment = {**os.environ, "PYTHONPATH": str(DRIVER.parents[2])}
    command = [sys.executable, str(DRIVER), *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def keys_in(store: Store) -> dict[str, WrappedKey]:
    found = {}
    for key in store.list("keys/"):
        stored = store.read(key, max_bytes=1 << 20)
        assert stored is not None
        found[key.rpartition("/")[2]] = json.decode(stored.data, WrappedKey)
    return found


@pytest.mark.parametrize(("when", "k"), [*POINTS, *(pytest.param(*point, marks=pytest.mark.slow) for point in OTHERS)])
def test_a_killed_publish_goes_on_with_its_keys(ready: Ready, tmp_path: Path, when: str, k: int) -> None:
    folder = tmp_path / "store"
    shutil.copytree(ready.folder / "store", folder)
    killed = run(ready, folder, when, k)
    assert killed.returncode == -9, killed.stderr
    store = LocalStore(folder)
    left = keys_in(store)
    made = Publishing(store=store, keys=ready.publishing.keys)
    options = PublishOptions(shards=4, encrypt=ready.key, encrypt_index=True)
    root = made.publish(ready.snapshot, ready.source, options=options).root
    release = made.release(root)
    assert left.items() <= keys_in(store).items()
    for shard in release.shards:
        assert shard.id not in left or left[shard.id].key == shard.key
    body = read_gate(store, made.dataset).body
    assert (body.candidates[root].state, body.publications) == ("STAGED", {})
    world = replace(a_world(made), unlocked=Unlocked([ready.key]))
    assert verify_release(store, root, read_gate(store, made.dataset), world=world).report.verdict == "PASSED"


def test_there_are_no_other_writes(ready: Ready, tmp_path: Path) -> None:
    shutil.copytree(ready.folder / "store", tmp_path / "store")
    through = run(ready, tmp_path / "store", "before", WRITES + 1)
    assert through.returncode == 0, through.stderr


def test_two_runs_at_once_share_their_data_keys(tmp_path: Path) -> None:
    """The other run of the same publication ends between this one's look for a key and its create."""
    made = Publishing(store=MemoryStore())
    made.init()
    source = write_source(tmp_path / "a.arrow", records_table(60))
    snapshot, key = made.snapshot(source), a_key()
    others: list[str] = []
    rule = Rule(
        operation="create", prefix="keys/", fault=Fault.HOOK,
        hook=lambda at: others.append(publish_with(made, snapshot, source, key)),
    )  # fmt: skip
    slow = Publishing(store=FaultyStore(made.store, [rule]), keys=made.keys)
    with pytest.raises(
        ShardrelError
    ) as caught:  # the pin that it began with is gone; its objects are none the less good
        publish_with(slow, snapshot, source, key)
    assert caught.value.code == ErrorCode.GATE_NO_PUBLICATION
    root = publish_with(made, snapshot, source, key)
    keys = [[shard.key for shard in made.release(one).shards] for one in (*others, root)]
    assert keys == [keys[0]] * 2


@pytest.mark.parametrize("fault", [Fault.UNKNOWN_BEFORE, Fault.UNKNOWN_AFTER])
def test_an_unknown_outcome_of_a_key_stops_before_its_shard(tmp_path: Path, fault: Fault) -> None:
    made = Publishing(store=MemoryStore())
    made.init()
    source = write_source(tmp_path / "a.arrow", records_table(60))
    snapshot, key = made.snapshot(source), a_key()
    rule = Rule(operation="create", prefix="keys/", fault=fault, skip=1)
    faulty = Publishing(store=FaultyStore(made.store, [rule]), keys=made.keys)
    with pytest.raises(OutcomeUnknownError) as caught:
        publish_with(faulty, snapshot, source, key)
    assert caught.value.code == ErrorCode.OUTCOME_CREATE
    left = keys_in(made.store)
    root = publish_with(made, snapshot, source, key)
    assert left.items() <= keys_in(made.store).items()
    assert {shard.key for shard in made.release(root).shards} == {
        held.key for name, held in keys_in(made.store).items() if name.startswith("shard-")
    }

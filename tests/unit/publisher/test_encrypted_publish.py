"""Publishing encrypted: what is stored first, what a second run finds, and how a key is rotated."""

import base64
from json import loads as json_loads
from pathlib import Path

import pytest
from msgspec.structs import replace

from publisher.options import PublishOptions
from shardrel.canonical import json
from shardrel.errors import ErrorCode, InvalidInputError, ShardrelError
from shardrel.gate.view import read_gate
from shardrel.records.encryption import WrappedKey
from shardrel.records.snapshot import MemberIndex, Snapshot
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_by_digest, get_record
from shardrel.trust.key_encryption import Unlocked
from shardrel.trust.key_files import FileKey
from tests.support.encrypted import a_key, encrypted_snapshot, publish_with
from tests.support.publishing import Publishing, records_table, write_source
from tests.support.release_builder import a_world
from verifier.verify import verify_release

SHARDS = ("shard-00000-of-00002", "shard-00001-of-00002")


@pytest.fixture
def made() -> Publishing:
    publishing = Publishing(store=MemoryStore())
    publishing.init()
    return publishing


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "a.arrow", records_table(60))


def verdict(made: Publishing, root: str, *keys: FileKey) -> str:
    from dataclasses import replace as with_fields

    world = with_fields(a_world(made), unlocked=Unlocked(keys))
    return verify_release(made.store, root, read_gate(made.store, made.dataset), world=world).report.verdict


def stored_keys(made: Publishing) -> dict[str, WrappedKey]:
    """The wrapped keys in the store, by their whole key."""
    found = {}
    for key in made.store.list("keys/"):
        stored = made.store.read(key, max_bytes=1 << 20)
        assert stored is not None
        found[str(key)] = json.decode(stored.data, WrappedKey)
    return found


def logical(made: Publishing, root: str) -> object:
    release = made.release(root)
    shards = [(s.id, s.logical_digest, s.member_set_digest, s.records, s.tokens) for s in release.shards]
    return shards, release.ordered_member_tuple_root, release.totals.splits


def test_a_second_run_goes_on_with_the_stored_keys(made: Publishing, source: Path) -> None:
    key, snapshot = a_key(), made.snapshot(source)
    first = publish_with(made, snapshot, source, key)
    kept = stored_keys(made)
    assert {name.rpartition("/")[2] for name in kept} == {*SHARDS, "member-index"}
    second = publish_with(made, snapshot, source, key)
    assert second != first, "nonces are random"
    assert stored_keys(made) == kept
    for one, other in zip(made.release(first).shards, made.release(second).shards, strict=True):
        assert one.key == other.key
        assert one.digest != other.digest
    assert logical(made, first) == logical(made, second)
    assert verdict(made, second, key) == "PASSED"


def test_another_key_or_version_makes_a_release_with_equal_logical_digests(made: Publishing, source: Path) -> None:
    key, other, snapshot = a_key(), a_key(), made.snapshot(source)
    newer = FileKey(version="2", key=key.key)
    roots = [publish_with(made, snapshot, source, one) for one in (None, key, newer, other)]
    assert len(set(roots)) == 4
    assert len({str(logical(made, root)) for root in roots}) == 1
    wrapped = {shard.key.wrapped for root in roots for shard in made.release(root).shards if shard.key is not None}
    assert len(wrapped) == 6
    assert [verdict(made, root, one) for root, one in zip(roots, (key, key, newer, other), strict=True)] == [
        "PASSED"
    ] * 4


def test_a_stored_key_that_is_another_objects_is_refused(made: Publishing, source: Path) -> None:
    key, snapshot = a_key(), made.snapshot(source)
    publish_with(made, snapshot, source, key)
    one, two = (name for name in stored_keys(made) if not name.endswith("member-index"))
    stored, other = (made.store.read(name, max_bytes=1 << 20) for name in (one, two))
    assert stored is not None
    assert other is not None
    renamed = replace(json.decode(other.data, WrappedKey), shard=one.rpartition("/")[2])
    for data in (other.data, json.encode(renamed)):
        stored = made.store.read(one, max_bytes=1 << 20)
        assert stored is not None
        made.store.swap(one, data, stored.token)
        with pytest.raises(ShardrelError) as caught:
            publish_with(made, snapshot, source, key)
        assert caught.value.code == ErrorCode.ENCRYPTION_WRAPPED_KEY


def test_an_encrypted_snapshot_and_index_hold_no_id_in_the_clear(made: Publishing, source: Path) -> None:
    key, later = a_key(), a_key()
    snapshot = encrypted_snapshot(made, source, key)
    root = publish_with(made, snapshot, source, later, [key])
    release = made.release(root)
    assert release.encryption is not None
    assert release.encryption.parts_key is not None
    for held in (*made.store.list("objects/"), *made.store.list("attestations/")):
        stored = made.store.read(held, max_bytes=1 << 30)
        assert stored is not None
        assert b"sample-0" not in stored.data, held
        told = base64.b64decode(json_loads(stored.data)["payload"]) if held.startswith("attestations/") else b""
        assert source.name.encode() not in told, "without a column of ids they would be made of this name"
    borders = [
        *get_record(made.store, release.objects.member_index, MemberIndex).parts,
        *json.decode(get_by_digest(made.store, snapshot), Snapshot).parts,
    ]
    assert not [part for part in borders if "sample" in (part.last_sample_id or "")]
    assert verdict(made, root, key, later) == "PASSED"


@pytest.mark.parametrize(("given", "code"), [(0, ErrorCode.ENCRYPTION_READER), (1, ErrorCode.ENCRYPTION_KEY)])
def test_an_encrypted_snapshot_is_published_with_its_key_alone(
    made: Publishing, source: Path, given: int, code: ErrorCode
) -> None:
    snapshot = encrypted_snapshot(made, source, a_key())
    with pytest.raises(ShardrelError) as caught:
        publish_with(made, snapshot, source, None, [a_key()] * given)
    assert caught.value.code == code


def test_a_plain_publication_stores_no_key(made: Publishing, source: Path) -> None:
    root = publish_with(made, made.snapshot(source), source, None)
    assert not stored_keys(made)
    assert made.release(root).encryption is None


def test_an_index_is_encrypted_where_shards_are() -> None:
    with pytest.raises(InvalidInputError) as caught:
        PublishOptions(encrypt_index=True)
    assert caught.value.code == ErrorCode.INPUT_INVALID

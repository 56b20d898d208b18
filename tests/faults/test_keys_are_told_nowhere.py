"""Keys of encrypted releases are in no output, no log, no object, no cache and no repr, whatever goes wrong."""

import base64
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from publisher.encryption import Encrypting
from publisher.options import PublishOptions
from shardrel.canonical.json import decode
from shardrel.cli.main import main
from shardrel.data.encryption import ReleaseLocks
from shardrel.kms.key_reference import open_key
from shardrel.records.release import Release
from shardrel.records.snapshot import Snapshot
from shardrel.store.objects import get_by_digest
from shardrel.store.open import open_store
from shardrel.trust.key_encryption import KeyEncryption, Unlocked
from shardrel.trust.key_files import FileKey, make_key_file
from shardrel.trust.release_keys import index_key, shard_lock, snapshot_key
from tests.support.mocked_aws import mocked_aws
from verifier.encryption import Lock


class Told:
    """Runs commands and keeps all that they print."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd
        self.text = ""

    def __call__(self, *line: str, status: int = 0) -> dict[str, Any]:
        for form in ([], ["--json"]) if status else (["--json"],):
            done = main([*line, *form])
            out, err = self._capfd.readouterr()
            self.text += out + err
            assert done == status, (line, out, err)
        answer: dict[str, Any] = json.loads(out)
        return answer


@pytest.fixture(params=["file", "awskms"])
def references(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A key, and another one of its kind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHARDREL_DEBUG", "1")
    if request.param == "file":
        yield [f"file:{make_key_file(tmp_path / 'keks', name)[0]}" for name in ("one", "two")]
        return
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mocked_aws():
        client = boto3.client("kms", region_name="eu-west-1")
        yield [f"awskms:{client.create_key()['KeyMetadata']['Arn']}" for _ in range(2)]


def the_whole_way(told: Told, key: str, other: str) -> tuple[str, str]:
    """Snapshot, publish, verify, pull and prove, as they should go and as they should not; snapshot and root."""
    Path("a.jsonl").write_text("".join(json.dumps({"id": f"s{n}", "text": f"text {n}"}) + "\n" for n in range(9)))
    told("init")
    snapshot = told("snapshot", "a.jsonl", "--id-column", "id", "--encrypt", key)["snapshot"]
    publish = ["publish", snapshot, "--source", "a.jsonl", "--shards", "2"]
    told(*publish, "--encrypt", other, status=1)
    told(*publish, "--encrypt", "file:nowhere", status=2)
    assert told(*publish, "--decrypt", key, status=1)["error"]["code"] == "encryption.plaintext"
    root = told(*publish, "--encrypt", key, "--encrypt-index")["root"]
    told("verify", root, status=1)
    told("verify", root, "--decrypt", other, status=1)
    told("verify", root, "--decrypt", key)
    told("pull", root, "--to", "none", status=1)
    told("pull", root, "--to", "plain", "--decrypt", key)
    told("pull", root, "--to", "sealed", "--ciphertext")
    assert told("digest", "sealed", status=2)["error"]["code"] == "encryption.reader"
    told("prove", "s1", "--root", root, status=1)
    told("prove", "s1", "--root", root, "--decrypt", key)
    for shard in Path(".shardrel/store/objects").rglob("*"):
        if shard.is_file() and shard.read_bytes()[:4] == b"PARE":
            shard.chmod(0o600)
            shard.write_bytes(shard.read_bytes()[:-1] + b"F")
    told("verify", root, "--decrypt", key, status=1)
    told("pull", root, "--to", "broken", "--decrypt", key, status=1)
    return snapshot, root


def in_every_form(keys: list[bytes]) -> list[bytes]:
    forms: list[bytes] = []
    for key in keys:
        forms += [key, key.hex().encode(), key.hex().upper().encode(), base64.b64encode(key), repr(key)[2:-1].encode()]
    return forms


def found_in(text: bytes, forms: list[bytes]) -> list[bytes]:
    return [form for form in forms if form in text]


def test_no_key_is_told(
    references: list[str], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told = Told(capfd)
    snapshot, root = the_whole_way(told, *references)
    key = open_key(references[0])
    store, unlocked = open_store(".shardrel/store"), Unlocked([key])
    release = decode(get_by_digest(store, root), Release)
    locks = [shard_lock(release, shard, unlocked) for shard in release.shards]
    parts = [index_key(release, unlocked), snapshot_key(decode(get_by_digest(store, snapshot), Snapshot), unlocked)]
    secret = [one.data_key.key for one in [*locks, *parts] if one is not None]
    assert len(set(secret)) == 4
    if isinstance(key, FileKey):
        secret.append(key.key)
    forms = in_every_form(secret)
    held = [path for path in Path().rglob("*.kek.json") if found_in(path.read_bytes(), forms)]
    assert len(held) == isinstance(key, FileKey), "the search finds a key where one is"
    shown = reprs(key, unlocked, release, [*locks, *parts])
    assert not found_in((told.text + caplog.text + shown).encode(), forms)
    files = [path for path in Path().rglob("*") if path.is_file() and path.parent.name != "keks"]
    assert len(files) > 20
    assert not [path for path in files if found_in(path.read_bytes(), forms)]


def reprs(key: KeyEncryption, unlocked: Unlocked, release: Release, held: list[Any]) -> str:
    """What a debugger, a log or a traceback with locals would show of everything that holds a key."""
    encrypting = Encrypting(
        store=open_store(".shardrel/store"), key=key, publication="p", dataset="d", snapshot="s", schema="x", index=True
    )
    lock = Lock(held[0].data_key, held[0].aad_prefix)
    things = [key, unlocked, encrypting, PublishOptions(encrypt=key), ReleaseLocks(release=release, unlocked=unlocked)]
    return " ".join(repr(thing) for thing in [*things, lock, lock.properties, *held])

"""The folder of keys as people have it: with other files in it, and with keys that cannot be read."""

import json
from pathlib import Path

import pytest

from tests.support.command import Command, shardrel_in

KEYS = Path(".shardrel/keys")


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return shardrel_in(tmp_path, monkeypatch, capsys)


@pytest.fixture
def root(shardrel: Command) -> str:
    """A staged release."""
    Path("texts.jsonl").write_text("".join(json.dumps({"id": f"t{n}", "text": "one"}) + "\n" for n in range(9)))
    shardrel("init")
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    return str(shardrel("publish", snapshot, "--source", "texts.jsonl", "--shards", "2")["root"])


def damage(shardrel: Command, root: str) -> None:
    store = Path(".shardrel/store/objects/sha256")
    manifest = json.loads((store / root[7:9] / root[7:]).read_text())
    digest = manifest["shards"][0]["digest"][7:]
    (store / digest[:2] / digest).write_bytes(b"other bytes")


def test_files_that_are_not_our_keys_stop_nobody_who_has_the_key(shardrel: Command, root: str) -> None:
    (KEYS / "aaa-certificate.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    (KEYS / "zzz-foreign.pem").write_text("not a key")
    (KEYS / "zzz-foreign.pem").chmod(0o600)
    shardrel("verify", root)
    shardrel("approve", root)
    assert shardrel("admit", root, "--alias", "prod")["generation"] == 1


def test_a_needed_key_that_others_may_read_is_named(shardrel: Command, root: str) -> None:
    (KEYS / "verifier.pem").chmod(0o644)
    assert shardrel.code("verify", root) == "trust.key-file"


def test_the_verdict_stands_where_the_governors_key_cannot_be_used(shardrel: Command, root: str) -> None:
    (KEYS / "admin.pem").chmod(0o644)
    assert shardrel("verify", root)["verdict"] == "PASSED"
    damage(shardrel, root)
    failed = shardrel("verify", root, status=1)
    assert (failed["verdict"], failed["revocation"]["error"]["code"]) == ("FAILED", "trust.key-file")


def test_a_failed_verdict_revokes_also_where_the_folder_of_keys_cannot_be_written(shardrel: Command, root: str) -> None:
    (KEYS / "operations").rmdir()
    (KEYS / "operations").write_text("in the way")
    damage(shardrel, root)
    failed = shardrel("verify", root, status=1)
    assert (failed["verdict"], failed["revocation"]["state"]) == ("FAILED", "INVALID")
    assert shardrel.code("fence", "tombstones", "t.jsonl", status=2) == "input.no-such-file"
    Path("t.jsonl").write_text('{"sequence": 1, "sampleId": "nobody"}\n')
    assert shardrel.code("fence", "tombstones", "t.jsonl", status=2) == "input.invalid"
    assert shardrel("fence", "tombstones", "t.jsonl", "--operation-id", "mine")["watermark"] == 1

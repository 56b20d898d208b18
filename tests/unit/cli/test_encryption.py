"""Encrypted releases on the command line: how keys are named, and what a verifier without one may not do."""

import json
from pathlib import Path

import pytest

from tests.support.command import Command, shardrel_in

KEY = "file:.shardrel/keys/prod.kek.json"
OTHER = "file:.shardrel/keys/other.kek.json"
VARIABLE = "SHARDREL_ENCRYPTION_KEY"


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    command = shardrel_in(tmp_path, monkeypatch, capsys)
    Path("a.jsonl").write_text("".join(json.dumps({"id": f"s{n}", "text": f"text {n}"}) + "\n" for n in range(9)))
    command("init")
    for name in ("prod", "other"):
        command("keys", "make-encryption", name)
    return command


@pytest.fixture
def root(shardrel: Command) -> str:
    snapshot = shardrel("snapshot", "a.jsonl", "--id-column", "id")["snapshot"]
    return str(shardrel("publish", snapshot, "--source", "a.jsonl", "--shards", "2", "--encrypt", KEY)["root"])


def test_keys_are_made_once_and_shown_by_their_fingerprints(shardrel: Command) -> None:
    made = shardrel("keys", "make-encryption", "third", "--version", "2026")
    assert made["version"] == "2026"
    assert made["fingerprint"].startswith("sha256:")
    assert shardrel.code("keys", "make-encryption", "third", status=2) == "input.key"
    shown = {key["name"]: key for key in shardrel("keys", "show")["encryptionKeys"]}
    assert set(shown) == {"other", "prod", "third"}
    assert shown["third"] == {"name": "third", **made}


def test_a_verifier_without_the_key_judges_nothing_and_revokes_nothing(shardrel: Command, root: str) -> None:
    assert shardrel.code("verify", root) == "encryption.reader"
    assert shardrel.code("verify", root, "--decrypt", OTHER) == "encryption.key"
    assert shardrel("status")["candidates"][root] == "STAGED"
    assert shardrel("verify", root, "--decrypt", OTHER, "--decrypt", KEY)["verdict"] == "PASSED"
    assert shardrel("status")["candidates"][root] == "VERIFIED"


def test_the_environment_names_keys_to_read_with(shardrel: Command, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"{OTHER} {KEY}")
    assert shardrel("verify", root)["verdict"] == "PASSED"
    assert shardrel("pull", root, "--to", "out")["records"] == 9
    monkeypatch.setenv(VARIABLE, OTHER)
    assert shardrel.code("pull", root, "--to", "other") == "encryption.key"


def test_the_environment_never_encrypts(shardrel: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    snapshot = shardrel("snapshot", "a.jsonl", "--id-column", "id")["snapshot"]
    root = shardrel("publish", snapshot, "--source", "a.jsonl", "--shards", "2")["root"]
    monkeypatch.delenv(VARIABLE)
    assert shardrel("verify", root)["verdict"] == "PASSED"


def test_a_wrong_call_is_one(shardrel: Command) -> None:
    snapshot = shardrel("snapshot", "a.jsonl", "--id-column", "id")["snapshot"]
    publish = ["publish", snapshot, "--source", "a.jsonl"]
    assert shardrel.code(*publish, "--encrypt-index", status=2) == "input.invalid"
    assert shardrel.code(*publish, "--encrypt", "5f" * 32, status=2) == "input.key"
    Path(".shardrel/keys/prod.kek.json").chmod(0o644)
    assert shardrel.code(*publish, "--encrypt", KEY) == "trust.key-file"


@pytest.mark.parametrize("text", [None, "text 4"])
def test_a_plain_release_of_an_encrypted_snapshot_is_rechecked_without_a_digest_of_an_id(
    shardrel: Command, text: str | None
) -> None:
    snapshot = shardrel("snapshot", "a.jsonl", "--id-column", "id", "--encrypt", KEY)["snapshot"]
    plain = ("--plain", "--decrypt", KEY)
    root = shardrel("publish", snapshot, "--source", "a.jsonl", "--shards", "2", *plain)["root"]
    shardrel("verify", root, "--decrypt", KEY)
    Path("t.jsonl").write_text('{"sequence": 1, "sampleId": "s4"}\n')
    shardrel("fence", "tombstones", "t.jsonl")
    if text is not None:
        Path("b.jsonl").write_text(json.dumps({"sequence": 1, "benchmark": "exam", "text": text}) + "\n")
        shardrel("fence", "benchmarks", "b.jsonl")
    found = shardrel("verify", root, "--fences-only", "--decrypt", KEY, status=1)
    codes = ["tombstone.hit"] if text is None else ["benchmark.hit", "tombstone.hit"]
    assert [(one["code"], one["sampleDigest"]) for one in found["findings"]] == [(code, None) for code in codes]

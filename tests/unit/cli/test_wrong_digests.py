"""A digest of something else, of nothing, or a part of one: told as what it is, and nothing is signed about it."""

from pathlib import Path

import pytest

from shardrel.cli.main import main
from tests.support.command import Command, shardrel_with_texts

NOTHING = f"sha256:{'0' * 64}"


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return shardrel_with_texts(tmp_path, monkeypatch, capsys)


@pytest.fixture
def snapshot(shardrel: Command) -> str:
    return str(shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"])


def stored() -> set[str]:
    """Every file of the store."""
    return {path.as_posix() for path in Path(".shardrel/store").rglob("*") if path.is_file()}


@pytest.mark.parametrize("more", [(), ("--fences-only",)])
def test_what_is_another_record_is_not_verified_and_nothing_is_signed(
    shardrel: Command, snapshot: str, more: tuple[str, ...]
) -> None:
    before = stored()
    for digest in (snapshot, shardrel("policy", "show")["policyDigest"]):
        error = shardrel("verify", digest, *more, status=2)["error"]
        assert error["code"] == "input.invalid"
        assert error["context"]["digest"] == digest
        assert error["context"]["kind"].startswith("training.shard.")
    assert stored() == before


def test_what_is_absent_or_no_record_stays_a_finding(shardrel: Command) -> None:
    absent = shardrel("verify", NOTHING, status=1)
    assert absent["verdict"] == "FAILED"
    assert [one["code"] for one in absent["findings"]] == ["storage.object-absent"]


def test_a_root_is_no_snapshot(shardrel: Command, snapshot: str) -> None:
    root = shardrel("publish", snapshot, "--source", "texts.jsonl", "--shards", "2")["root"]
    error = shardrel("publish", root, "--source", "texts.jsonl", status=2)["error"]
    assert (error["code"], error["context"]["kind"]) == ("input.invalid", "training.shard.release.v1")


def test_an_unknown_snapshot_is_told_with_the_store_that_was_looked_at(shardrel: Command) -> None:
    error = shardrel("publish", NOTHING, "--source", "texts.jsonl", "--store", "./.shardrel/store", status=1)["error"]
    assert (error["code"], error["context"]["snapshot"]) == ("storage.object-absent", NOTHING)
    assert "./.shardrel/store" in error["message"]
    assert "shardrel snapshot" in error["message"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (("verify", "abc123"), "8 or more"),
        (("verify", "ABCDEF012345"), "upper case"),
        (("publish", "abcdef012345", "--source", "texts.jsonl"), "these are 12"),
        (("check-proof", "texts.jsonl", "--root", "abcdef012345"), "these are 12"),
        (("verify", "not-hex"), "64"),
    ],
)
def test_part_of_a_digest_is_told_what_would_do(
    shardrel: Command, capsys: pytest.CaptureFixture[str], line: tuple[str, ...], told: str
) -> None:
    assert shardrel.code(*line, status=2) == "input.invalid"
    assert main(list(line)) == 2
    assert told in capsys.readouterr().err

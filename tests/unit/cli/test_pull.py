"""``shardrel pull``: what it hands out, what only with ``--anyway``, and the folders that it leaves alone."""

import json
from pathlib import Path

import pytest

from shardrel.cli.main import main
from tests.support.command import Command, shardrel_in


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return shardrel_in(tmp_path, monkeypatch, capsys)


@pytest.fixture
def root(shardrel: Command) -> str:
    """Of nine records in three shards, admitted."""
    shardrel("init")
    made = published(shardrel, 9)
    shardrel("verify", made)
    shardrel("approve", made)
    shardrel("admit", made, "--alias", "prod")
    return made


def published(shardrel: Command, records: int) -> str:
    lines = [json.dumps({"id": f"s{n}", "text": f"text {n}"}) for n in range(records)]
    Path("sources").mkdir(exist_ok=True)
    Path("sources/records.jsonl").write_text("\n".join(lines))
    snapshot = shardrel("snapshot", "sources", "--id-column", "id")["snapshot"]
    return str(shardrel("publish", snapshot, "--source", "sources", "--shards", "3")["root"])


def test_a_root_with_a_hit_is_handed_out_only_anyway(
    shardrel: Command, root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("gone.jsonl").write_text('{"sequence": 1, "sampleId": "s3"}\n{"sequence": 2, "sampleId": "s4"}\n')
    shardrel("fence", "tombstones", "gone.jsonl")
    # Nobody has looked yet: that is said, and refuses nothing.
    assert main(["pull", root, "--to", "before"]) == 0
    assert "not checked at the fences of now" in capsys.readouterr().out
    shardrel("verify", root, "--fences-only", status=1)
    error = shardrel("pull", root[7:19], "--to", "out", status=1)["error"]
    assert (error["code"], error["context"]["tombstoneHits"]) == ("permit.root-has-hit", 2)
    assert not Path("out").exists()
    pulled = shardrel("pull", root, "--to", "out", "--anyway")
    assert (pulled["records"], pulled["refusal"]["code"]) == (9, "permit.root-has-hit")
    assert main(["pull", root, "--to", "out", "--anyway"]) == 0
    assert "Don't use it" in capsys.readouterr().out


def test_a_revoked_root_is_handed_out_only_anyway(shardrel: Command, root: str) -> None:
    shardrel("revoke", root, "--reason", "test.reason")
    assert shardrel.code("pull", root, "--to", "out") == "gate.root-invalid"
    assert shardrel("pull", root, "--to", "out", "--anyway")["state"] == "INVALID"


def test_a_prefix_needs_a_gate_and_a_whole_digest_none(shardrel: Command, root: str) -> None:
    assert shardrel.code("pull", root[7:19], "--to", "out", "--dataset", "other") == "gate.absent"
    assert shardrel.code("diff", root[7:19], root, "--dataset", "other") == "gate.absent"
    assert shardrel.code("pull", "no-digest", "--to", "out", "--dataset", "other", status=2) == "input.invalid"
    assert shardrel("pull", root, "--to", "out", "--dataset", "other")["state"] is None


def test_a_gate_that_is_broken_keeps_a_release_only_from_who_does_not_insist(shardrel: Command, root: str) -> None:
    Path(".shardrel/store/gates/default/state").write_text("{}")
    assert shardrel.code("pull", root, "--to", "out") == "format.not-a-record"
    assert shardrel.code("pull", root[7:19], "--to", "out", "--anyway") == "format.not-a-record"
    assert shardrel("pull", root, "--to", "out", "--anyway")["records"] == 9


def test_a_folder_of_another_release_is_left_alone(shardrel: Command, root: str) -> None:
    other = published(shardrel, 10)
    shardrel("pull", root, "--to", "out")
    before = {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}
    error = shardrel("pull", other, "--to", "out", status=2)["error"]
    assert (error["code"], error["context"]["holds"], error["context"]["root"]) == ("input.invalid", root, other)
    assert {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()} == before
    assert shardrel("pull", root, "--to", "out")["alreadyPresent"] == 3


def test_a_folder_of_other_files_is_left_alone(shardrel: Command, root: str) -> None:
    assert shardrel.code("pull", root, "--to", "sources", status=2) == "input.invalid"
    assert [path.name for path in Path("sources").iterdir()] == ["records.jsonl"]
    Path("empty/.hidden").mkdir(parents=True)
    assert shardrel("pull", root, "--to", "empty")["records"] == 9


@pytest.mark.parametrize("steps", [(), ("verify",), ("verify", "approve")])
def test_every_verb_has_one_word_for_a_state(
    shardrel: Command, capsys: pytest.CaptureFixture[str], steps: tuple[str, ...]
) -> None:
    shardrel("init")
    made = published(shardrel, 4)
    for verb in steps:
        shardrel(verb, made)
    state = "VERIFIED" if steps else "STAGED"
    assert shardrel("status")["candidates"][made] == state
    assert shardrel("report", made)["state"] == state
    assert shardrel("pull", made, "--to", "out")["state"] == state
    assert main(["report", made]) == 0
    assert f"shards, {state}" in capsys.readouterr().out

"""Behind its verdict, verify says how the root stands at the gate, and what comes next."""

import json
import re
import shlex
from pathlib import Path

import pytest

from shardrel.cli.main import main
from tests.support.command import Command, shardrel_with_texts


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return shardrel_with_texts(tmp_path, monkeypatch, capsys)


@pytest.fixture
def root(shardrel: Command) -> str:
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    return str(shardrel("publish", snapshot, "--source", "texts.jsonl", "--shards", "2")["root"])


def told(capsys: pytest.CaptureFixture[str], *line: str) -> tuple[int, str]:
    """Status, and what the gate is told to say, in the words for people."""
    capsys.readouterr()
    status = main(list(line))
    [said] = [one for one in capsys.readouterr().out.splitlines() if one.strip().startswith("the gate")]
    return status, said


def test_each_state_names_what_comes_next(shardrel: Command, capsys: pytest.CaptureFixture[str], root: str) -> None:
    short = root[7:19]
    assert shardrel("verify", root)["state"] == "VERIFIED"
    assert f"shardrel approve {short}" in told(capsys, "verify", root)[1]
    shardrel("approve", root)
    _, said = told(capsys, "verify", root)
    assert "approve" not in said
    assert f"shardrel admit {short}" in said
    shardrel("admit", root, "--alias", "prod")
    assert shardrel("verify", root)["state"] == "ADMITTED"
    assert "run:" not in told(capsys, "verify", root)[1]


def test_a_pass_alone_does_not_lift_a_revocation_and_says_what_does(
    shardrel: Command, capsys: pytest.CaptureFixture[str], root: str
) -> None:
    shardrel("verify", root)
    shardrel("approve", root)
    shardrel("revoke", root, "--reason", "bad-labels")
    again = shardrel("verify", root)
    assert (again["verdict"], again["state"]) == ("PASSED", "INVALID")
    status, said = told(capsys, "verify", root)
    assert status == 0
    assert "INVALID (bad-labels)" in said
    assert "shardrel approve" in said
    assert "shardrel admit" in said


def test_a_failed_verification_says_that_it_revoked(
    shardrel: Command, capsys: pytest.CaptureFixture[str], root: str
) -> None:
    manifest = json.loads(next(Path(".shardrel/store/objects").rglob(root[7:])).read_bytes())
    [shard] = Path(".shardrel/store/objects").rglob(manifest["shards"][0]["digest"][7:])
    shard.chmod(0o644)
    shard.write_bytes(shard.read_bytes()[:-1])
    failed = shardrel("verify", root, status=1)
    assert (failed["state"], failed["revocation"]["state"]) == ("INVALID", "INVALID")
    assert "verification.failed" in told(capsys, "verify", root)[1]


def test_a_hit_revokes_nothing_and_names_the_refusal(
    shardrel: Command, capsys: pytest.CaptureFixture[str], root: str
) -> None:
    shardrel("verify", root)
    shardrel("approve", root)
    shardrel("admit", root, "--alias", "prod")
    Path("gone.jsonl").write_text('{"sequence": 1, "sampleId": "else"}\n{"sequence": 2, "sampleId": "t1"}\n')
    shardrel("fence", "tombstones", "gone.jsonl")
    found = shardrel("verify", root, "--fences-only", status=1)
    assert (found["state"], found["hitBy"]) == ("ADMITTED", {"tombstones": [2], "benchmarks": []})
    assert "release a snapshot without them" in told(capsys, "verify", root)[1]
    assert main(["verify", root, "--fences-only"]) == 1
    assert re.search(r"hit by tombstones +2\n", capsys.readouterr().out)
    assert main(["verify", root]) == 1
    assert "tombstones 1 to 2; shardrel affected --tombstones FILE" in capsys.readouterr().out


def advice(shardrel: Command, *line: str) -> list[str]:
    """The command line that a refusal says to run."""
    message = shardrel(*line, status=1)["error"]["message"]
    return str(message.partition("; run: shardrel ")[2]).split()


def test_a_refusal_names_the_very_command_that_helps(shardrel: Command, root: str) -> None:
    admit = ("admit", root, "--alias", "prod")
    for verb in ("verify", "approve"):
        line = advice(shardrel, *admit)
        assert line == [verb, root[7:19]]
        shardrel(*line)
    shardrel(*admit)
    shardrel("run", "start", "--alias", "prod", "--run-id", "job")
    Path("gone.jsonl").write_text('{"sequence": 1, "sampleId": "somebody else"}\n')
    shardrel("fence", "tombstones", "gone.jsonl")
    line = advice(shardrel, "run", "renew", "job")
    assert line == ["verify", root[7:19], "--fences-only"]
    shardrel(*line)
    assert shardrel("run", "renew", "job")["state"] == "open"


def test_a_delta_without_a_full_report_names_the_full_one(shardrel: Command, root: str) -> None:
    assert advice(shardrel, "verify", root, "--fences-only") == ["verify", root]


@pytest.mark.parametrize("name", ["a b.json", "it's.json", "-a $HOME.json"])
def test_the_check_that_prove_prints_can_be_pasted(
    shardrel: Command, capsys: pytest.CaptureFixture[str], root: str, name: str
) -> None:
    capsys.readouterr()
    assert main(["prove", "t1", "--root", root, f"--out={name}"]) == 0
    [printed] = [line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("check it with")]
    program, *line = shlex.split(printed.replace("check it with", "", 1))
    assert program == "shardrel"
    assert shardrel(*line)["valid"]

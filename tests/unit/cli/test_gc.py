"""``shardrel gc`` and ``init``: what is said of a store of several datasets, and what a dry run tells."""

import json
import shutil
from pathlib import Path

import pytest

from shardrel.cli.main import main
from tests.support.command import Command, shardrel_in


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return shardrel_in(tmp_path, monkeypatch, capsys)


def admitted(shardrel: Command, records: int) -> str:
    Path("texts.jsonl").write_text("\n".join(json.dumps({"id": f"s{n}", "text": f"text {n}"}) for n in range(records)))
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    root = str(shardrel("publish", snapshot, "--source", "texts.jsonl", "--shards", "2")["root"])
    shardrel("verify", root)
    shardrel("approve", root)
    shardrel("admit", root, "--alias", "prod")
    return root


def shown(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    """What a person sees, in one line."""
    capsys.readouterr()
    assert main(list(line)) == 0
    return " ".join(capsys.readouterr().out.split())


def test_a_dry_run_tells_roots_kinds_and_bytes(shardrel: Command, capsys: pytest.CaptureFixture[str]) -> None:
    shardrel("init")
    old, _ = admitted(shardrel, 6), admitted(shardrel, 7)
    text = shown(capsys, "gc", "--dry-run", "--keep-generations", "0")
    assert f"Roots that would leave root {old}" in text
    assert "shards and other tables" in text
    planned = shardrel("gc", "--dry-run", "--keep-generations", "0")
    files = {one["key"]: Path(".shardrel/store", one["key"]).stat().st_size for one in planned["deleted"]}
    assert sum(kind["bytes"] for kind in planned["kinds"]) == sum(files.values())
    assert sum(kind["objects"] for kind in planned["kinds"]) == len(files)
    assert {"parquet", "record"} <= {kind["kind"] for kind in planned["kinds"]}
    done = shardrel("gc", "--keep-generations", "0")
    assert (done["retired"], done["kinds"], done["notes"]) == ([old], None, [])


def test_a_second_dataset_is_named_by_init_and_by_gc(shardrel: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert shardrel("init")["notes"] == []
    old, _ = admitted(shardrel, 6), admitted(shardrel, 7)
    second = shardrel("init", "--dataset", "img")
    assert second["otherDatasets"] == ["default"]
    assert "gc deletes nothing" in second["notes"][0]
    for line in (["gc", "--keep-generations", "0"], ["gc", "--keep-generations", "0", "--dry-run"]):
        done = shardrel(*line)
        assert (done["deleted"], done["held"], done["waiting"]) == ([], [old], ["dataset:img"])
        assert "a store (a folder or bucket prefix) of its own" in done["notes"][0]
        text = shown(capsys, *line)
        assert "the gate of img" in text
        assert f"Pinned by nothing, and waiting root {old}" in text


def test_init_says_that_the_keys_are_elsewhere(shardrel: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert "none of the policy" not in shown(capsys, "init")
    shutil.rmtree(".shardrel/keys")
    assert "No private key of the policy is in .shardrel/keys" in shown(capsys, "init")
    assert not Path(".shardrel/keys").exists()


def test_an_absent_gate_names_the_store_and_the_datasets_that_are_there(shardrel: Command) -> None:
    error = shardrel("status", status=1)["error"]
    assert (error["code"], error["context"]["datasets"]) == ("gate.absent", [])
    assert error["context"]["store"] in error["message"]
    shardrel("init", "--dataset", "corpus")
    error = shardrel("status", status=1)["error"]
    assert error["context"]["datasets"] == ["corpus"]
    assert "but of corpus" in error["message"]


def test_a_root_that_was_let_go_of_is_told_as_such(shardrel: Command) -> None:
    shardrel("init")
    old, _ = admitted(shardrel, 6), admitted(shardrel, 7)
    shardrel("prove", "s1", "--root", old, "--out", "before.json")
    sequence = shardrel("gc", "--keep-generations", "0")["boundary"]
    for named in (old, old[7:19]):
        error = shardrel("prove", "s1", "--root", named, status=1)["error"]
        assert (error["code"], error["context"]) == ("gate.unknown-root", {"root": old, "sequence": sequence})
    assert shardrel("report", old[7:19], status=1)["error"]["context"]["sequence"] == sequence
    assert shardrel("prove", "s1", "--root", "0" * 12, status=1)["error"]["context"] == {"root": "0" * 12}
    assert shardrel("check-proof", "before.json", "--root", old)["valid"] is True

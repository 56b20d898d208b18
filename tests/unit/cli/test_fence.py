"""``shardrel fence``: how many members of the releases in use an entry names, so that a typo is seen."""

import json
from pathlib import Path
from typing import Any

import pytest

from shardrel.cli.main import main
from tests.support.command import Command, shardrel_in


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return shardrel_in(tmp_path, monkeypatch, capsys)


@pytest.fixture
def root(shardrel: Command) -> str:
    """Of nine records, admitted."""
    Path("texts.jsonl").write_text("\n".join(json.dumps({"id": f"s{n}", "text": f"text {n}"}) for n in range(9)))
    shardrel("init")
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    made = str(shardrel("publish", snapshot, "--source", "texts.jsonl", "--shards", "2")["root"])
    shardrel("verify", made)
    shardrel("approve", made)
    shardrel("admit", made, "--alias", "prod")
    return made


def entries(*some: dict[str, Any]) -> str:
    Path("entries.jsonl").write_text("".join(json.dumps(one) + "\n" for one in some))
    return "entries.jsonl"


def test_it_counts_the_members_of_the_releases_in_use(
    shardrel: Command, root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named = entries({"sequence": 1, "sampleId": "s1"}, {"sequence": 2, "sampleId": "s2"})
    assert shardrel("fence", "tombstones", named, "--stage")["inUse"] == [{"root": root, "members": 2}]
    assert main(["fence", "tombstones", named]) == 0
    shown = capsys.readouterr().out
    assert f"2 in {root[7:19]}" in shown
    assert "misspelt" not in shown


def test_entries_that_name_nobody_are_told(shardrel: Command, root: str, capsys: pytest.CaptureFixture[str]) -> None:
    misspelt = entries({"sequence": 1, "sampleId": "S1"})
    assert shardrel("fence", "tombstones", misspelt, "--stage")["inUse"] == [{"root": root, "members": 0}]
    assert main(["fence", "tombstones", misspelt]) == 0
    assert "misspelt" in capsys.readouterr().out


def test_what_is_not_cheap_to_count_or_cannot_be_read_is_not_counted(shardrel: Command, root: str) -> None:
    text = entries({"sequence": 1, "benchmark": "exam", "text": "what follows text number 4"})
    assert shardrel("fence", "benchmarks", text)["inUse"] is None
    assert shardrel("fence", "benchmarks", "--advance-staged")["inUse"] is None
    for path in Path(".shardrel/store/objects").rglob("*"):
        if path.is_file() and path.read_bytes()[:4] == b"PAR1":
            path.unlink()
    named = entries({"sequence": 1, "sampleId": "s1"})
    fenced = shardrel("fence", "tombstones", named)
    assert (fenced["watermark"], fenced["inUse"]) == (1, None)

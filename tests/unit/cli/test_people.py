"""What people look at: differences, schema changes, permits, the history, and the page about a release."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from shardrel.cli.main import main
from shardrel.cli.output import Result, Table, visible
from shardrel.cli.page import page
from tests.support.command import Command, shardrel_in

SECRET = "nobody reads this text"


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return shardrel_in(tmp_path, monkeypatch, capsys)


def write(name: str, records: list[dict[str, Any]]) -> str:
    Path(name).write_text("".join(json.dumps(record) + "\n" for record in records))
    return name


def record(at: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"doc-{at}",
        "split": "test" if at % 3 == 0 else "train",
        "text": f"{SECRET} {at}",
        **more,
    }


def published(
    shardrel: Command, name: str, records: list[dict[str, Any]], *more: str, status: int = 0
) -> dict[str, Any]:
    """What publish answers of these records."""
    write(name, records)
    columns = ("--id-column", "id", "--split-column", "split", "--apply-tombstones")
    snapshot = shardrel("snapshot", name, *columns)["snapshot"]
    return shardrel("publish", snapshot, "--source", name, "--shards", "2", *more, status=status)


def text_of(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    """What a person sees."""
    capsys.readouterr()
    assert main(list(line)) == 0
    return capsys.readouterr().out


def test_diff_counts_by_split_and_lists_members(shardrel: Command, capsys: pytest.CaptureFixture[str]) -> None:
    shardrel("init")
    old = published(shardrel, "a.jsonl", [record(n) for n in range(9)])["root"]
    later = [record(n, text="other" if n == 4 else f"{SECRET} {n}") for n in range(2, 11)]
    new = published(shardrel, "a.jsonl", later)["root"]
    same = shardrel("diff", old, old)
    assert (same["added"], same["removed"], same["changed"], same["unchanged"]) == (0, 0, 0, 9)
    found = shardrel("diff", old, new[7:19], "--limit", "2", "--list", "all.jsonl")
    # Without a version column the version is that of the file, so every member that stayed has another one.
    assert (found["added"], found["removed"], found["changed"]) == (2, 2, 7)
    assert found["changedFields"] == {"content": 1, "source": 0, "version": 7, "split": 0}
    assert found["splits"]["test"] == {"added": 1, "removed": 1, "changed": 2}
    assert len(found["members"]) == 2
    listed = [json.loads(line) for line in Path("all.jsonl").read_text().splitlines()]
    assert sorted(one["change"] for one in listed) == ["added"] * 2 + ["changed"] * 7 + ["removed"] * 2
    assert {"sampleId": "doc-0", "change": "removed", "split": "test", "was": None, "fields": []} in listed
    seen = text_of(capsys, "diff", old, new)
    assert "2 added, 2 removed, 7 changed, 0 as before" in seen
    assert SECRET not in seen


def test_publish_compares_with_a_previous_root_and_never_with_an_alias(shardrel: Command) -> None:
    shardrel("init")
    old = published(shardrel, "a.jsonl", [record(n, n=n) for n in range(4)])["root"]
    Path("renames.json").write_text('[{"from": "n", "to": "number"}]')
    later = [record(n, number=n / 2, more=None) for n in range(4)]
    done = published(shardrel, "b.jsonl", later, "--previous", old[7:20], "--renames", "renames.json")
    report = done["schemaEvolution"]
    assert (report["previous"], [change["kind"] for change in report["changes"]]) == (
        old,
        ["renamed", "changed", "added"],
    )
    # What was declared is known one way; the other way round nobody declared anything.
    forth = shardrel("diff", old, done["root"])["schemaChanges"]
    assert [change["kind"] for change in forth] == ["renamed", "changed", "added"]
    back = shardrel("diff", done["root"], old)["schemaChanges"]
    assert sorted(change["kind"] for change in back) == ["added", "removed", "removed"]
    assert shardrel("verify", done["root"])["verdict"] == "PASSED"
    said = shardrel("report", done["root"])["attestations"]
    assert {one["kind"]: one["by"] for one in said}["schema-evolution"] == ["publisher"]
    wrong = published(shardrel, "b.jsonl", later, "--previous", "prod", status=2)
    assert wrong["error"]["code"] == "input.invalid"
    Path("renames.json").write_text('{"n": "number"}')
    same = published(shardrel, "b.jsonl", later, "--previous", old, "--renames", "renames.json")
    assert same["root"] == done["root"]
    Path("renames.json").write_text('["n", "number"]')
    wrong = published(shardrel, "b.jsonl", later, "--previous", old, "--renames", "renames.json", status=2)
    assert wrong["error"]["code"] == "input.schema-rename"


def test_a_policy_that_asks_for_a_comparison_is_obeyed_before_anything_is_written(shardrel: Command) -> None:
    shardrel("init")
    old = published(shardrel, "a.jsonl", [record(1)])["root"]
    for line in (("verify", old), ("approve", old), ("admit", old, "--alias", "prod")):
        shardrel(*line)
    policy = shardrel("policy", "show")["policy"]
    Path("policy.json").write_text(json.dumps({**policy, "schemaChanges": ["added"]}))
    shardrel("policy", "set", "policy.json")
    wider = [record(1, more=1)]
    assert published(shardrel, "b.jsonl", wider, status=1)["error"]["code"] == "evolution.absent"
    done = published(shardrel, "b.jsonl", wider, "--previous", old)
    assert shardrel("verify", done["root"])["verdict"] == "PASSED"
    narrower = [{"id": "doc-1", "split": "test", "other": 1}]
    refused = published(shardrel, "c.jsonl", narrower, "--previous", old, status=1)
    assert refused["error"]["code"] == "evolution.change-not-allowed"


def test_permits_and_history_say_what_closed_them(shardrel: Command, capsys: pytest.CaptureFixture[str]) -> None:
    shardrel("init")
    root = published(shardrel, "a.jsonl", [record(n) for n in range(4)])["root"]
    for line in (("verify", root), ("approve", root), ("admit", root, "--alias", "prod")):
        shardrel(*line)
    run = shardrel("run", "start", "--alias", "prod", "--run-id", "one")
    write("t.jsonl", [{"sequence": 1, "sampleId": "doc-1"}])
    assert text_of(capsys, "status").count("open ") >= 2
    shardrel("fence", "tombstones", "t.jsonl")
    lives = shardrel("status", "--permits")["permitHistory"]
    assert [(one["subject"], one["closed"]["by"], one["closed"]["watermark"]) for one in lives] == [
        ("prod", "tombstones", 1),
        ("one", "tombstones", 1),
    ]
    seen = text_of(capsys, "status")
    assert re.search(r"closed by tombstones 1, transition \d+", seen)
    log = text_of(capsys, "log")
    assert "closes permits" in log
    assert "by admin as governor" in log
    assert run["permit"][:12] in log
    entry = shardrel("log")["transitions"][-1]
    assert entry["operationId"] in log
    assert (entry["role"], entry["signers"]) == ("governor", ["admin"])


def test_the_page_about_a_release_needs_nothing_and_shows_no_content(shardrel: Command) -> None:
    shardrel("init")
    root = published(shardrel, "a.jsonl", [record(n) for n in range(4)])["root"]
    shardrel("verify", root)
    shardrel("approve", root)
    answer = shardrel("report", root, "--html", "one.html")
    assert answer["admissible"] is True
    assert [one["kind"] for one in answer["attestations"]].count("approval") == 1
    shardrel("report", root, "--html", "two.html")
    text = Path("one.html").read_text()
    assert text == Path("two.html").read_text()
    assert root in text
    assert not re.search(r"(src|href)=|https?://|url\(", text)
    assert SECRET not in text
    assert "doc-1" not in text
    assert shardrel.code("report", "sha256:" + "0" * 64) == "gate.unknown-root"


def test_a_page_escapes_what_others_named() -> None:
    name = "<script>alert('&')</script>"
    shown = page(
        Result(data={}, headline=name, facts=[(name, name)], tables=[Table(columns=[name], rows=[(name,)])]), name
    )
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;") == 7


def test_what_would_move_the_cursor_is_shown_as_an_escape() -> None:
    assert visible("é → \U0001f600") == "é → \U0001f600"
    assert visible("a\x1b[2Jb\nc\u202e") == r"a\x1b[2Jb\nc\u202e"


def test_a_pull_says_what_was_there_and_what_the_gate_says(shardrel: Command) -> None:
    shardrel("init")
    root = published(shardrel, "a.jsonl", [record(n) for n in range(4)])["root"]
    first = shardrel("pull", root[7:19], "--to", "out")
    assert (first["root"], first["alreadyPresent"], first["state"]) == (root, 0, "STAGED")
    next(Path("out").glob("*.parquet")).write_bytes(b"broken")
    again = shardrel("pull", root, "--to", "out")
    assert (again["alreadyPresent"], again["refusal"]) == (first["shards"] - 1, None)
    assert shardrel("pull", root, "--to", "new", "--dataset", "other")["state"] is None


def test_one_of_a_thing_is_one_and_not_ones(shardrel: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert "4 keys made" in text_of(capsys, "keys", "make")
    assert "1 key made in .shardrel/keys, 1 key of the names there before" in text_of(
        capsys, "keys", "make", "alice", "admin"
    )
    assert shardrel("keys", "make", "alice")["made"] == []
    shardrel("init")
    write("one.jsonl", [record(1)])
    assert text_of(capsys, "snapshot", "one.jsonl", "--id-column", "id").startswith("1 record is declared")
    snapshot = shardrel("snapshot", "one.jsonl", "--id-column", "id")["snapshot"]
    assert text_of(capsys, "publish", snapshot, "--source", "one.jsonl", "--shards", "1").startswith(
        "1 shard with 1 record is STAGED"
    )
    (root,) = shardrel("status")["candidates"]
    assert text_of(capsys, "verify", root).startswith("PASSED: 1 shard, 1 record")
    assert text_of(capsys, "pull", root, "--to", "out").startswith("1 shard, 1 record in out")


def test_the_newest_of_a_long_log_are_shown_with_their_holders(
    shardrel: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    shardrel("init")
    Path("gone.jsonl").write_text('{"sequence": 1, "sampleId": "x"}\n')
    shardrel("fence", "tombstones", "gone.jsonl")
    text = text_of(capsys, "log", "--limit", "1")
    assert text.startswith("2 transitions, checked; the newest 1 are shown")
    assert "advance-fence" in text
    assert "init  the gate" not in text

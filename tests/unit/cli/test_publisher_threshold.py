"""A policy that asks for two publishers, from the command line: by one process with both keys, and by one after the other."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Command, shardrel_in

SHARDS = ("--source", "texts.jsonl", "--shards", "2")


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.delenv("SHARDREL_KEY", raising=False)
    made = shardrel_in(tmp_path, monkeypatch, capsys)
    made("init")
    Path("texts.jsonl").write_text("".join(json.dumps({"id": f"t{n}", "text": "one"}) + "\n" for n in range(9)))
    return made


def ask_for_two(shardrel: Command) -> dict[str, Any]:
    """Another publisher, and a policy that asks for both."""
    policy = shardrel("policy", "show")["policy"]
    [made] = shardrel("keys", "make", "second")["keys"]
    policy["roles"]["publisher"]["keys"].append({name: made[name] for name in ("name", "scheme", "public")})
    policy["roles"]["publisher"]["threshold"] = 2
    Path("policy.json").write_text(json.dumps(policy))
    return shardrel("policy", "set", "policy.json")


def declared(shardrel: Command) -> str:
    return str(shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"])


def said(finding: dict[str, Any]) -> tuple[str, bool]:
    return finding["code"], str(finding["detail"]).startswith("signed by 1 of 2 publishers; publish again")


def publishers(shardrel: Command, root: str) -> list[list[str]]:
    """Who signed each provenance of a root."""
    attested = shardrel("report", root)["attestations"]
    return sorted(one["by"] for one in attested if one["kind"] == "provenance")


def test_both_keys_of_the_folder_sign_and_the_release_goes_its_way(shardrel: Command) -> None:
    ask_for_two(shardrel)
    root = shardrel("publish", declared(shardrel), *SHARDS)["root"]
    assert publishers(shardrel, root) == [["publisher"], ["second"]]
    assert shardrel("verify", root)["verdict"] == "PASSED"
    shardrel("approve", root)
    assert shardrel("admit", root, "--alias", "prod")["generation"] == 1
    begun = next(one for one in shardrel("log")["transitions"] if one["kind"] == "begin-publication")
    assert (begun["role"], begun["signers"]) == ("publisher", ["publisher", "second"])


def test_both_keys_may_be_named(shardrel: Command) -> None:
    ask_for_two(shardrel)
    snapshot = declared(shardrel)
    named = ("--key", "second", "--key", ".shardrel/keys/publisher.pem")
    root = shardrel("publish", snapshot, *SHARDS, *named)["root"]
    assert publishers(shardrel, root) == [["publisher"], ["second"]]


def test_one_key_alone_is_refused_before_anything_is_pinned(shardrel: Command) -> None:
    ask_for_two(shardrel)
    snapshot, before = declared(shardrel), len(shardrel("log")["transitions"])
    for keys in (("--key", "second"), ("--key", "second", "--key", "second"), ("--key", "second", "--key", "approver")):
        assert shardrel.code("publish", snapshot, *SHARDS, *keys) == "trust.threshold-not-met"
    assert len(shardrel("log")["transitions"]) == before


def test_two_processes_vouch_one_after_the_other_where_a_releaser_pins(shardrel: Command) -> None:
    ask_for_two(shardrel)
    snapshot = declared(shardrel)
    root = shardrel("publish", snapshot, *SHARDS, "--key", "publisher", "--key", "admin")["root"]
    failed = shardrel("verify", root, status=1)
    assert ([said(finding) for finding in failed["findings"]], failed["revocation"]) == (
        [("provenance.absent", True)],
        None,
    )
    again = shardrel("publish", snapshot, *SHARDS, "--key", "second", "--key", "admin")
    assert (again["root"], again["alreadyPresent"]) == (root, again["shards"])
    assert publishers(shardrel, root) == [["publisher"], ["second"]]
    assert shardrel("verify", root)["verdict"] == "PASSED"


def test_a_threshold_that_rises_is_told_and_met_by_publishing_again(shardrel: Command) -> None:
    snapshot = declared(shardrel)
    root = shardrel("publish", snapshot, *SHARDS)["root"]
    assert ask_for_two(shardrel)["again"] == [{"root": root, "verbs": ["publish"], "usedBy": []}]
    assert [said(finding) for finding in shardrel("verify", root, status=1)["findings"]] == [
        ("provenance.absent", True)
    ]
    assert shardrel("publish", snapshot, *SHARDS)["root"] == root
    assert shardrel("verify", root)["verdict"] == "PASSED"


def test_the_report_of_schema_evolution_is_signed_by_both(shardrel: Command) -> None:
    previous = shardrel("publish", declared(shardrel), *SHARDS)["root"]
    ask_for_two(shardrel)
    Path("texts.jsonl").write_text("".join(json.dumps({"id": f"t{n}", "more": n}) + "\n" for n in range(9)))
    snapshot, compared = declared(shardrel), ("--previous", previous)
    root = shardrel("publish", snapshot, *SHARDS, *compared, "--key", "publisher", "--key", "admin")["root"]
    found = sorted(said(finding) for finding in shardrel("verify", root, status=1)["findings"])
    assert found == [("evolution.not-attested", True), ("provenance.absent", True)]
    assert shardrel("publish", snapshot, *SHARDS, *compared)["root"] == root
    assert shardrel("verify", root)["verdict"] == "PASSED"

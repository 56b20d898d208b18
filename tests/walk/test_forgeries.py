"""What a writer with access to the bucket can try, and what the verifier says to it."""

import json
from pathlib import Path

import pytest

from examples.demo.tamper import drop_a_shard, flip_a_byte, graft
from tests.support.command import Command, shardrel_in


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return shardrel_in(tmp_path, monkeypatch, capsys)


def publish(shardrel: Command, store: str, texts: dict[str, str]) -> str:
    """A staged release of some texts."""
    lines = [json.dumps({"id": name, "source": "s", "version": "1", "text": text}) for name, text in texts.items()]
    Path(f"{store}.jsonl").write_text("\n".join(lines) + "\n")
    shardrel("init", "--store", store)
    columns = ["--id-column", "id", "--source-column", "source", "--version-column", "version"]
    declared = shardrel("snapshot", f"{store}.jsonl", *columns, "--store", store)
    published = shardrel(
        "publish", declared["snapshot"], "--source", f"{store}.jsonl", "--shards", "4", "--store", store
    )
    return str(published["root"])


def findings(shardrel: Command, root: str) -> set[str]:
    report = shardrel("verify", root, "--store", "honest", status=1)
    assert report["verdict"] == "FAILED"
    return {finding["code"] for finding in report["findings"]}


@pytest.fixture
def honest(shardrel: Command) -> str:
    root = publish(shardrel, "honest", {f"t{number}": f"text number {number}" for number in range(40)})
    assert shardrel("verify", root, "--store", "honest")["verdict"] == "PASSED"
    return root


@pytest.mark.parametrize("seed", range(5))
def test_a_flipped_bit_is_found_and_the_root_invalid(shardrel: Command, honest: str, seed: int) -> None:
    shard = flip_a_byte(Path("honest"), honest, seed)
    report = shardrel("verify", honest, "--store", "honest", status=1)
    assert ("storage.digest-mismatch", shard) in {(found["code"], found["subject"]) for found in report["findings"]}
    assert shardrel("status", "--store", "honest")["candidates"][honest] == "INVALID"


def test_one_of_two_verifiers_who_finds_a_flaw_makes_the_root_invalid(shardrel: Command, honest: str) -> None:
    policy = shardrel("policy", "show", "--store", "honest")["policy"]
    [made] = shardrel("keys", "make", "second")["keys"]
    policy["roles"]["verifier"]["keys"].append({name: made[name] for name in ("name", "scheme", "public")})
    policy["roles"]["verifier"]["threshold"] = 2
    Path("policy.json").write_text(json.dumps(policy))
    shardrel("policy", "set", "policy.json", "--store", "honest")
    flip_a_byte(Path("honest"), honest, 0)
    assert shardrel("verify", honest, "--store", "honest", status=1)["revocation"]["state"] == "INVALID"


def test_a_member_replaced_under_the_same_id_is_found(shardrel: Command, honest: str) -> None:
    texts = {f"t{number}": f"text number {number}" for number in range(40)} | {"t7": "another text"}
    forged = publish(shardrel, "forged", texts)
    root = graft(Path("honest"), honest, Path("forged"), forged)
    # Everything that the forger could compute anew fits; only what was declared gives the member away.
    assert findings(shardrel, root) == {"member.content-substituted", "provenance.absent"}


def test_a_descriptor_dropped_from_the_root_is_found(shardrel: Command, honest: str) -> None:
    found = findings(shardrel, drop_a_shard(Path("honest"), honest))
    assert found >= {"root.shard-list", "root.totals-mismatch", "root.ordered-root-mismatch", "member.missing"}


def test_a_forged_root_is_not_a_candidate(shardrel: Command, honest: str) -> None:
    forged = drop_a_shard(Path("honest"), honest)
    refused = shardrel("admit", forged, "--alias", "prod", "--store", "honest", status=1)
    assert refused["error"]["code"] == "gate.unknown-root"

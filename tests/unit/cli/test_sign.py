"""Governors on different machines: a transition goes round as a file until enough of them have signed it."""

import json
from pathlib import Path

import pytest

from tests.support.command import Command, shardrel_in

BOB = Path("bob")
LINE = ("fence", "tombstones", "tombstones.jsonl", "--key", "admin", "--key", "draft:change.json")


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """A gate with two governors, of which one keeps his key elsewhere."""
    monkeypatch.delenv("SHARDREL_KEY", raising=False)
    made = shardrel_in(tmp_path, monkeypatch, capsys)
    made("init")
    [bob] = made("keys", "make", "bob", "--keys", str(BOB))["keys"]
    policy = made("policy", "show")["policy"]
    policy["roles"]["governor"]["keys"].append({name: bob[name] for name in ("name", "scheme", "public")})
    policy["roles"]["governor"]["threshold"] = 2
    Path("policy.json").write_text(json.dumps(policy))
    assert made.code("policy", "set", "policy.json") == "trust.threshold-not-met"
    Path("tombstones.jsonl").write_text('{"sequence": 1, "sampleId": "nobody"}\n')
    return made


def two_governors(shardrel: Command) -> None:
    line = ("policy", "set", "policy.json", "--key", "admin", "--key", "draft:change.json")
    assert shardrel.code(*line, status=3) == "signer.awaited"
    shardrel("keys", "sign", "change.json", "--key", str(BOB / "bob.pem"))
    shardrel(*line)
    Path("change.json").unlink()


def test_a_change_of_policy_is_signed_by_old_and_new_governors_apart(shardrel: Command) -> None:
    two_governors(shardrel)
    assert shardrel("policy", "show")["policy"]["roles"]["governor"]["threshold"] == 2
    assert [entry["kind"] for entry in shardrel("log")["transitions"]] == ["init", "set-policy"]
    assert list(Path(".shardrel/keys/operations").iterdir()) == []


def test_what_a_draft_would_do_is_shown_before_it_is_signed(shardrel: Command) -> None:
    two_governors(shardrel)
    kept = shardrel(*LINE, status=3)["error"]
    assert (kept["code"], shardrel("status")["tombstoneWatermark"]) == ("signer.awaited", 0)
    shown = shardrel("keys", "sign", "change.json", "--show")
    assert (shown["request"]["kind"], shown["request"]["last"], shown["signatures"]) == ("advance-fence", 1, [])
    assert shown["parent"] == shardrel("log")["transitions"][-1]["digest"]
    assert shardrel.code("keys", "sign", "change.json", status=2) == "input.key"
    assert shardrel.code(*LINE, status=3) == "signer.awaited"
    for _ in range(2):
        signed = shardrel("keys", "sign", "change.json", "--key", str(BOB / "bob.pem"))
        assert len(signed["signatures"]) == 1
    assert shardrel(*LINE)["watermark"] == 1
    done = shardrel("log")["transitions"][-1]
    assert (done["operationId"], done["kind"]) == (kept["context"]["operationId"], "advance-fence")


@pytest.mark.slow
def test_a_draft_that_the_gate_has_overtaken_is_drafted_and_signed_anew(shardrel: Command) -> None:
    two_governors(shardrel)
    assert shardrel.code(*LINE, status=3) == "signer.awaited"
    shardrel("keys", "sign", "change.json", "--key", str(BOB / "bob.pem"))
    Path("texts.jsonl").write_text('{"id": "a", "text": "one"}\n')
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    shardrel("publish", snapshot, "--source", "texts.jsonl", "--shards", "1")
    assert shardrel.code(*LINE, status=3) == "signer.awaited"
    assert shardrel("keys", "sign", "change.json", "--show")["signatures"] == []
    shardrel("keys", "sign", "change.json", "--key", str(BOB / "bob.pem"))
    assert shardrel(*LINE)["watermark"] == 1


def test_a_signature_by_somebody_else_is_none(shardrel: Command) -> None:
    two_governors(shardrel)
    assert shardrel.code(*LINE, status=3) == "signer.awaited"
    shardrel("keys", "sign", "change.json", "--key", "verifier")
    assert shardrel.code(*LINE, status=3) == "signer.awaited"
    shardrel("keys", "sign", "change.json", "--key", "admin")
    assert shardrel.code(*LINE, status=3) == "signer.awaited"


def test_only_transitions_are_drafted(shardrel: Command) -> None:
    two_governors(shardrel)
    line = ("log", "--export", "kept", "--key", "admin", "--key", "draft:change.json")
    assert shardrel.code(*line, status=2) == "input.invalid"
    for text, status, code in (
        ("{}", 1, "format.not-a-record"),
        ('{"payload":"e30=","payloadType":"application/json","signatures":[]}', 1, "trust.payload-type"),
    ):
        Path("other.json").write_text(text)
        assert shardrel.code("keys", "sign", "other.json", "--key", "admin", status=status) == code
    assert shardrel.code("keys", "sign", "nowhere.json", "--key", "admin", status=2) == "input.no-such-file"

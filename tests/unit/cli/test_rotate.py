"""keys rotate: nobody is left without a key, and what has to be said again is said."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.store.local import LocalStore
from tests.support.command import Command, shardrel_in
from tests.support.kms_server import kms_server

KEYS = Path(".shardrel/keys")


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    for name in ("SHARDREL_KEY", "SHARDREL_PASSPHRASE", "SHARDREL_PASSPHRASE_FILE"):
        monkeypatch.delenv(name, raising=False)
    made = shardrel_in(tmp_path, monkeypatch, capsys)
    made("init")
    return made


def role(shardrel: Command, name: str) -> list[str]:
    return [key["name"] for key in shardrel("policy", "show")["policy"]["roles"][name]["keys"]]


def release(shardrel: Command) -> str:
    """A release that an alias points to."""
    Path("texts.jsonl").write_text("".join(json.dumps({"id": f"t{n}", "text": "one"}) + "\n" for n in range(9)))
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    root = str(shardrel("publish", snapshot, "--source", "texts.jsonl", "--shards", "2")["root"])
    shardrel("verify", root)
    shardrel("approve", root)
    shardrel("admit", root, "--alias", "prod")
    return root


def test_every_role_is_rotated_and_the_release_goes_on(shardrel: Command) -> None:
    root = release(shardrel)
    lost = {}
    for name in ("admin", "publisher", "verifier", "approver"):
        done = shardrel("keys", "rotate", name)
        assert (done["keys"][0]["name"], done["retired"]["name"]) == (f"{name}-2", name)
        lost[name] = [(one["root"], one["verbs"], one["usedBy"]) for one in done["again"]]
        Path(done["retired"]["file"]).unlink()
    assert lost == {
        "admin": [],
        "publisher": [(root, ["publish"], ["alias:prod"])],
        "verifier": [(root, ["verify"], ["alias:prod"])],
        "approver": [(root, ["approve"], ["alias:prod"])],
    }
    assert shardrel.code("run", "start", "--alias", "prod") == "gate.not-verified"
    # Publishing again adds the new key's word, and nothing else.
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    assert shardrel("publish", snapshot, "--source", "texts.jsonl", "--shards", "2")["root"] == root
    assert shardrel("verify", root)["verdict"] == "PASSED"
    assert shardrel("run", "start", "--alias", "prod")["root"] == root
    assert shardrel.code("admit", root, "--alias", "other") == "gate.not-approved"
    shardrel("approve", root)
    assert shardrel("admit", root, "--alias", "other")["generation"] == 1
    assert len(shardrel("log")["transitions"]) == 12


def test_a_root_whose_publisher_was_rotated_fails_until_it_is_said_again_and_is_not_revoked(shardrel: Command) -> None:
    root = release(shardrel)
    shardrel("run", "start", "--alias", "prod", "--run-id", "job")
    shardrel("keys", "rotate", "publisher")
    failed = shardrel("verify", root, status=1)
    [finding] = failed["findings"]
    assert (finding["code"], failed["revocation"]) == ("provenance.absent", None)
    assert finding["detail"].startswith("signed by publisher, a key that the policy no longer holds; publish ")
    assert shardrel("run", "renew", "job")["state"] == "open"
    assert shardrel("status")["candidates"] == {root: "ADMITTED"}
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    shardrel("publish", snapshot, "--source", "texts.jsonl", "--shards", "2")
    assert shardrel("verify", root)["verdict"] == "PASSED"


def test_an_approval_that_is_lost_is_named(shardrel: Command) -> None:
    root = release(shardrel)
    again = shardrel("keys", "rotate", "approver")["again"]
    assert again == [{"root": root, "verbs": ["approve"], "usedBy": ["alias:prod"]}]
    # Jobs that hold the runner's key are named too.
    shardrel("run", "start", "--alias", "prod", "--run-id", "job")
    assert [shardrel("keys", "rotate", name)["runs"] for name in ("publisher", "admin")] == [[], ["job"]]
    # A policy that only adds a key takes nothing away.
    policy = shardrel("policy", "show")["policy"]
    [made] = shardrel("keys", "make", "second")["keys"]
    policy["roles"]["verifier"]["keys"].append({name: made[name] for name in ("name", "scheme", "public")})
    Path("policy.json").write_text(json.dumps(policy))
    assert shardrel("policy", "set", "policy.json")["again"] == []
    policy["roles"]["verifier"]["threshold"] = 2
    Path("policy.json").write_text(json.dumps(policy))
    assert [one["verbs"] for one in shardrel("policy", "set", "policy.json")["again"]] == [["verify"]]


def test_to_rotate_again_answers_as_before_and_makes_no_third_key(shardrel: Command) -> None:
    first = shardrel("keys", "rotate", "verifier")
    again = shardrel("keys", "rotate", "verifier")
    assert (again["repeated"], again["keys"]) == (True, first["keys"])
    assert role(shardrel, "verifier") == ["verifier-2"]
    assert not (KEYS / "verifier-3.pem").exists()
    assert shardrel("keys", "rotate", "verifier-2")["keys"][0]["name"] == "verifier-3"
    assert shardrel("keys", "rotate", "verifier")["keys"] == first["keys"]
    assert shardrel.code("keys", "rotate", "nobody", status=2) == "input.key"
    assert list((KEYS / "operations").iterdir()) == []


def test_an_interrupted_rotation_goes_on_with_the_key_that_it_made(shardrel: Command) -> None:
    [left] = shardrel("keys", "make", "approver-2")["keys"]
    assert shardrel("keys", "rotate", "approver")["keys"][0]["keyId"] == left["keyId"]


@pytest.mark.parametrize("fault", [Fault.UNKNOWN_AFTER, Fault.UNKNOWN_BEFORE])
def test_a_rotation_whose_outcome_was_not_told_is_finished_by_the_same_command(
    shardrel: Command, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    silent = FaultyStore(LocalStore(".shardrel/store"), [Rule(operation="swap", prefix="gates/", fault=fault)])
    with monkeypatch.context() as patched:
        patched.setattr("shardrel.cli.rotate.the_store_to_write", lambda _: silent)
        assert shardrel.code("keys", "rotate", "admin", status=4) == "outcome-unknown.swap"
    assert len(list((KEYS / "operations").iterdir())) == 1
    done = shardrel("keys", "rotate", "admin")
    assert (done["keys"][0]["name"], done["repeated"]) == ("admin-2", fault is Fault.UNKNOWN_AFTER)
    assert role(shardrel, "governor") == ["admin-2"]
    assert not (KEYS / "admin-3.pem").exists()
    assert list((KEYS / "operations").iterdir()) == []
    assert [entry["kind"] for entry in shardrel("log")["transitions"]] == ["init", "set-policy"]


def test_without_the_governors_nothing_changes(shardrel: Command) -> None:
    before = shardrel("policy", "show")["policyDigest"]
    (KEYS / "admin.pem").rename("admin.pem")
    assert shardrel.code("keys", "rotate", "verifier") == "trust.threshold-not-met"
    assert shardrel.code("keys", "rotate", "admin") == "trust.threshold-not-met"
    assert shardrel("policy", "show")["policyDigest"] == before
    Path().chmod(0o700)
    assert shardrel("keys", "rotate", "admin", "--key", "./admin.pem")["roles"] == ["releaser", "governor", "runner"]
    assert role(shardrel, "governor") == ["admin-2"]


def test_a_key_of_a_separate_duty_takes_no_place(shardrel: Command) -> None:
    assert shardrel.code("keys", "rotate", "verifier", "--to", "publisher", status=2) == "input.policy"
    assert shardrel.code("keys", "rotate", "admin", "--to", "nobody", status=2) == "input.key"
    assert role(shardrel, "verifier") == ["verifier"]


def test_a_key_that_cannot_be_used_takes_no_place(shardrel: Command) -> None:
    shardrel("keys", "make", "next")
    (KEYS / "next.pem").chmod(0o644)
    assert shardrel.code("keys", "rotate", "admin", "--to", "next") == "trust.key-file"
    assert role(shardrel, "governor") == ["admin"]


def test_a_local_key_gives_way_to_one_in_kms(shardrel: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with kms_server() as kms:
        monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", kms.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-id")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
        reference = "awskms:" + kms.add("governor", Ed25519PrivateKey.generate())
        assert shardrel("keys", "rotate", "admin", "--to", reference)["keys"][0]["name"] == "governor"
        (KEYS / "admin.pem").unlink()
        assert shardrel("log", "--export", "kept", "--key", reference)["export"]["size"] == 2
        # What the service refuses has no effect, and the same command goes on with the same operation.
        Path("tombstones.jsonl").write_text('{"sequence": 1, "sampleId": "nobody"}\n')
        line = ("fence", "tombstones", "tombstones.jsonl", "--key", reference)
        kms.fail("Sign", "AccessDeniedException")
        refused = shardrel(*line, status=3)["error"]
        assert refused["code"] == "signer.access-denied"
        kms.fail("Sign", "DisabledException")
        assert shardrel.code(*line) == "trust.signer"
        kms.fail("Sign", "AccessDeniedException")
        kept = shardrel(*line, status=3)["error"]["context"]["operationId"]
        assert shardrel(*line)["watermark"] == 1
        assert shardrel("log")["transitions"][-1]["operationId"] == kept
        assert shardrel("keys", "rotate", "governor", "--to", "admin-9", "--key", reference, status=2)["error"]
        shardrel("keys", "make", "admin-9")
        assert shardrel("keys", "rotate", "governor", "--to", "admin-9", "--key", reference)["roles"]
    assert shardrel("log", "--export", "kept", "--against", "kept")["export"]["size"] == 4


def test_a_new_key_under_a_passphrase(shardrel: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDREL_PASSPHRASE", "open sesame")
    shardrel("keys", "rotate", "verifier", "--passphrase", "--scheme", "ecdsa-sha2-nistp256")
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in (KEYS / "verifier-2.pem").read_bytes()
    assert {key["name"]: key["scheme"] for key in shardrel("keys", "show")["keys"]}["verifier-2"].startswith("ecdsa")

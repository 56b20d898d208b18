"""Keys as people name them: under a passphrase, in a file, in KMS."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from shardrel.gate.call import Call
from shardrel.gate.publication import begin_publication, end_publication
from shardrel.store.local import LocalStore
from shardrel.trust import keyring
from tests.support import gates
from tests.support.command import Command, shardrel_in

KEYS = Path(".shardrel/keys")
ROOT = gates.a_root("one")


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    for name in ("SHARDREL_KEY", "SHARDREL_PASSPHRASE", "SHARDREL_PASSPHRASE_FILE"):
        monkeypatch.delenv(name, raising=False)
    return shardrel_in(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("verb", [("init",), ("keys", "make"), ("keys", "make-encryption", "admin")])
@pytest.mark.parametrize("keys", [".shardrel/keys", "elsewhere/keys"])
def test_git_does_not_see_private_keys(shardrel: Command, verb: tuple[str, ...], keys: str) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    shardrel(*verb, "--keys", keys, "--store", ".shardrel/store")
    assert list(Path(keys).glob("admin.*"))
    seen = subprocess.run(["git", "status", "--porcelain", "-uall"], check=True, capture_output=True, text=True).stdout
    assert not [line for line in seen.splitlines() if keys in line]


def test_a_folder_that_has_other_files_is_not_hidden_from_git(shardrel: Command) -> None:
    Path("mine").mkdir(mode=0o700)
    shardrel("keys", "make", "--keys", "mine")
    assert not Path("mine/.gitignore").exists()


def staged(shardrel: Command) -> None:
    """A candidate that nobody verified: what approvals and a gate need, without a release."""
    store = LocalStore(".shardrel/store")
    shardrel("init")
    call = Call(signers=[keyring.load(KEYS, "publisher")], recorded_at=gates.NOW, operation_id=None, pending=None)
    begin_publication(store, "default", "p", gates.SNAPSHOT, call)
    end_publication(store, "default", "p", ROOT, call)


def passphrase_file(text: str, mode: int = 0o600) -> str:
    path = Path("passphrase")
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_keys_under_a_passphrase_sign_where_it_is_given(shardrel: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shardrel.code("keys", "make", "--passphrase", status=2) == "input.key"
    monkeypatch.setenv("SHARDREL_PASSPHRASE_FILE", passphrase_file("open sesame\n"))
    shardrel("keys", "make", "admin", "--passphrase")
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in (KEYS / "admin.pem").read_bytes()
    assert shardrel("init")["keys"] == ["admin", "approver", "publisher", "verifier"]
    monkeypatch.delenv("SHARDREL_PASSPHRASE_FILE")
    Path("tombstones.jsonl").write_text('{"sequence": 1, "sampleId": "nobody"}\n')
    line = ("fence", "tombstones", "tombstones.jsonl")
    assert shardrel.code(*line) == "trust.passphrase"
    monkeypatch.setenv("SHARDREL_PASSPHRASE", "open says me")
    assert shardrel.code(*line) == "trust.passphrase"
    monkeypatch.setenv("SHARDREL_PASSPHRASE", "open sesame")
    assert shardrel(*line)["watermark"] == 1
    monkeypatch.setenv("SHARDREL_PASSPHRASE", "open says me")
    assert "says" not in json.dumps(shardrel(*line, status=1))
    files = [path.read_bytes() for path in Path(".shardrel").rglob("*") if path.is_file() and path.name != "admin.pem"]
    assert not [data for data in files if b"sesame" in data]


def test_a_passphrase_lies_in_a_private_file(shardrel: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDREL_PASSPHRASE_FILE", passphrase_file("open sesame", mode=0o644))
    assert shardrel.code("keys", "make", "--passphrase") == "trust.key-file"
    monkeypatch.setenv("SHARDREL_PASSPHRASE_FILE", "nowhere")
    assert shardrel.code("keys", "make", "--passphrase", status=2) == "input.key"


def test_the_public_half_of_a_key_under_a_passphrase_needs_none(
    shardrel: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARDREL_PASSPHRASE", "open sesame")
    made = shardrel("keys", "make", "one", "--passphrase")["keys"]
    monkeypatch.delenv("SHARDREL_PASSPHRASE")
    assert shardrel("keys", "show")["keys"] == made


def test_a_folder_of_keys_that_others_may_write_is_used_for_nothing(shardrel: Command) -> None:
    shardrel("init")
    KEYS.chmod(0o770)
    for line in (("keys", "show"), ("keys", "make", "more"), ("init", "--dataset", "other")):
        assert shardrel.code(*line) == "trust.key-file"


def test_a_key_that_is_named_signs_and_no_other(shardrel: Command) -> None:
    shardrel("init")
    Path("tombstones.jsonl").write_text('{"sequence": 1, "sampleId": "nobody"}\n')
    line = ("fence", "tombstones", "tombstones.jsonl")
    assert shardrel.code(*line, "--key", "approver") == "trust.role"
    assert shardrel.code(*line, "--key", "nobody", status=2) == "input.key"
    (KEYS / "admin.pem").rename("elsewhere.pem")
    Path("elsewhere.pem").chmod(0o600)
    Path().chmod(0o700)
    assert shardrel.code(*line, status=2) == "input.key"
    assert shardrel(*line, "--key", "./elsewhere.pem")["watermark"] == 1
    Path().chmod(0o777)
    assert shardrel.code(*line, "--key", "elsewhere.pem") == "trust.key-file"
    Path().chmod(0o700)


def test_the_approver_is_found_by_role_and_named_where_there_are_two(shardrel: Command) -> None:
    staged(shardrel)
    assert shardrel("approve", ROOT)["approvals"] == 1
    made = shardrel("keys", "make", "second", "third")["keys"]
    policy = shardrel("policy", "show")["policy"]
    public = [{name: key[name] for name in ("name", "scheme", "public")} for key in made]
    policy["roles"]["approver"] = {"keys": public, "threshold": 2}
    Path("policy.json").write_text(json.dumps(policy))
    shardrel("policy", "set", "policy.json")
    assert shardrel.code("approve", ROOT, status=2) == "input.key"
    assert shardrel.code("approve", ROOT, "--key", "approver") == "trust.role"
    assert shardrel("approve", ROOT, "--key", "second")["approvals"] == 1
    (KEYS / "second.pem").unlink()
    assert shardrel("approve", ROOT)["approvals"] == 2


def at_a_terminal(*line: str, typed: list[str]) -> str:
    """What a person sees who runs a command line and types an answer to each question."""
    terminal, theirs = pty.openpty()
    command = [sys.executable, "-m", "shardrel.cli", *line]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    process = subprocess.Popen(command, env=environment, preexec_fn=lambda: os.login_tty(theirs), close_fds=False)
    os.close(theirs)
    seen, answers = "", iter(typed)
    with contextlib.suppress(OSError):  # the terminal is gone when the process is
        while piece := os.read(terminal, 4096).decode():
            seen += piece
            if seen.endswith(": ") and (answer := next(answers, None)) is not None:
                os.write(terminal, f"{answer}\n".encode())
    os.close(terminal)
    return f"{process.wait()} {seen}"


@pytest.mark.slow
def test_a_passphrase_is_asked_for_at_a_terminal_and_not_shown(shardrel: Command) -> None:
    assert "passphrases differ" in at_a_terminal("keys", "make", "one", "--passphrase", typed=["open", "shut"])
    seen = at_a_terminal("keys", "make", "one", "--passphrase", typed=["open sesame", "open sesame"])
    assert seen.startswith("0 ")
    assert "sesame" not in seen
    (KEYS / "one.pub.json").unlink()
    assert shardrel.code("keys", "show") == "trust.passphrase"


@pytest.fixture(scope="module")
def moto_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture
def kms(moto_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", moto_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    return boto3.client("kms", region_name="eu-west-1")


def kms_key(kms: Any, spec: str = "ECC_NIST_P256") -> str:
    made = kms.create_key(KeyUsage="SIGN_VERIFY", KeySpec=spec)
    return f"awskms:{made['KeyMetadata']['Arn']}"


def test_keys_in_kms_hold_every_role(shardrel: Command, kms: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    references = {name: kms_key(kms) for name in ("publisher", "verifier", "approver", "admin")}
    roles: dict[str, Any] = {}
    for role in ("publisher", "verifier", "approver", "releaser", "governor", "runner"):
        [public] = shardrel("keys", "show", "--key", references.get(role, references["admin"]))["keys"]
        wanted = {name: public[name] for name in ("name", "scheme", "public")}
        roles[role] = {"keys": [wanted], "threshold": 1}
    policy = {"schema": "training.shard.policy.v1", "separateDuties": True, "maxFenceStep": 100, "rollbackWindow": 3}
    policy["roles"] = roles
    Path("policy.json").write_text(json.dumps(policy))
    admin = ("--key", references["admin"])
    assert shardrel.code("init", "--policy", "policy.json", status=2) == "input.key"
    shardrel("init", "--policy", "policy.json", *admin)
    Path("texts.jsonl").write_text("".join(json.dumps({"id": f"t{n}", "text": "one"}) + "\n" for n in range(9)))
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    line = ("publish", snapshot, "--source", "texts.jsonl", "--shards", "2")
    root = shardrel(*line, "--key", references["publisher"])["root"]
    assert shardrel("verify", root, "--key", references["verifier"])["verdict"] == "PASSED"
    assert shardrel("approve", root, "--key", references["approver"])["approvals"] == 1
    assert shardrel.code("admit", root, "--alias", "prod", "--key", references["approver"]) == "trust.role"
    monkeypatch.setenv("SHARDREL_KEY", references["admin"])
    assert shardrel("admit", root, "--alias", "prod")["generation"] == 1
    assert shardrel("run", "start", "--alias", "prod", "--run-id", "r")["state"] == "open"
    assert [entry["role"] for entry in shardrel("log")["transitions"]] == [
        "governor", "publisher", "publisher", "releaser", "runner",
    ]  # fmt: skip


def test_what_goes_wrong_in_kms_ends_with_a_status(shardrel: Command, kms: Any) -> None:
    assert shardrel.code("keys", "show", "--key", kms_key(kms, "ECC_NIST_P384"), status=2) == "input.key"
    gone = kms_key(kms).rpartition("/")[0] + "/00000000-0000-4000-8000-000000000000"
    assert shardrel.code("keys", "show", "--key", gone, status=2) == "input.key"
    assert shardrel.code("keys", "show", "--key", "awskms:mine", status=2) == "input.key"

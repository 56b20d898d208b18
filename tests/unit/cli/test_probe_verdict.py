"""Every verb that writes asks for the verdict of the probe first."""

import uuid
from pathlib import Path

import pytest

from shardrel.cli.main import _GROUPS, _VERBS
from shardrel.store.layout import probe_key
from shardrel.store.local import LocalStore
from shardrel.store.probe import Check, ProbeVerdict
from shardrel.store.verdicts import keep
from tests.support.command import Command, shardrel_in
from tests.support.gates import new_gate
from tests.support.shared_server import S3Server
from tests.support.stores import client_of, quick_settings

ROOT = "sha256:" + "0" * 64
NOW = "2026-01-31T12:00:00Z"

WRITING = {
    "snapshot": ["file"],
    "publish": [ROOT, "--source", "file"],
    "verify": [ROOT],
    "approve": [ROOT],
    "admit": [ROOT, "--alias", "prod"],
    "rollback": ["--alias", "prod", "--to", ROOT],
    "fence": ["tombstones", "file"],
    "revoke": [ROOT, "--reason", "test"],
    "run start": ["--alias", "prod"],
    "run renew": ["run-1"],
    "run finish": ["run-1"],
    "run cancel": ["run-1"],
    "checkpoint import": ["run-1", "--from", "file"],
    "policy set": ["file"],
    "keys rotate": ["admin"],
    "gc": [],
}
# ``init`` and ``probe`` try the store themselves; a drill has a scratch store of its own.
OTHERS = {
    "init", "probe", "drill", "digest", "status", "log", "pull", "run show", "checkpoint list", "checkpoint show",
    "checkpoint preflight", "checkpoint export", "keys make", "keys make-encryption", "keys show", "keys sign", "policy show", "diff", "report",
    "affected", "prove", "check-proof", "serve", "verify-bundle",
}  # fmt: skip


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    command = shardrel_in(tmp_path, monkeypatch, capsys)
    Path("file").write_text("{}\n")
    return command


def fail_the_store() -> None:
    check = Check(name="swap-race", ok=False, required=True, detail="2 of 4 racers won")
    keep(LocalStore(".shardrel/store"), "default", ProbeVerdict(checks=(check,), quoted_tokens=True), NOW)


def test_every_verb_is_known_to_write_or_not() -> None:
    grouped = {f"{group} {verb}" for group, (_, verbs) in _GROUPS.items() for verb in verbs}
    assert set(_VERBS) | grouped == WRITING.keys() | OTHERS


def test_all_verbs_that_write_refuse_a_store_that_failed(shardrel: Command) -> None:
    shardrel("init")
    fail_the_store()
    for verb, arguments in WRITING.items():
        error = shardrel(*verb.split(), *arguments, status=1)["error"]
        assert (verb, error["code"]) == (verb, "storage.not-conformant")
        assert error["context"]["checks"] == ["swap-race"]
    assert shardrel("status")["probe"]["verdict"] == "FAILED"


@pytest.mark.parametrize("again", ["init", "probe"])
def test_a_store_that_was_mended_is_used_again(shardrel: Command, again: str) -> None:
    shardrel("init")
    fail_the_store()
    shardrel(again)
    found = shardrel("status")["probe"]
    assert (found["verdict"], found["failed"], found["quotedTokens"]) == ("PASSED", [], True)
    assert shardrel.code("admit", ROOT, "--alias", "prod") == "gate.unknown-root"


def test_a_probe_of_a_store_without_a_gate_leaves_nothing(shardrel: Command) -> None:
    assert shardrel("probe")["verdict"] == "PASSED"
    assert list(LocalStore(".shardrel/store").list("")) == []


def test_a_verdict_that_init_kept_is_trusted(shardrel: Command) -> None:
    shardrel("init")
    before = LocalStore(".shardrel/store").read(probe_key("default"), max_bytes=10_000)
    shardrel("init")
    assert LocalStore(".shardrel/store").read(probe_key("default"), max_bytes=10_000) == before


def test_a_gate_in_a_bucket_that_nobody_probed_waits_for_init(shardrel: Command, seaweed: S3Server) -> None:
    from shardrel.store.s3 import S3Store

    prefix = f"test-{uuid.uuid4().hex[:12]}"
    url = f"s3://{seaweed.plain}/{prefix}"
    store = S3Store(seaweed.plain, prefix, client=client_of(seaweed.endpoint_url), settings=quick_settings())
    where = ["--store", url, "--endpoint-url", seaweed.endpoint_url]
    assert shardrel.code("admit", ROOT, "--alias", "prod", *where) == "gate.absent"
    new_gate(store, dataset="default")
    assert shardrel.code("admit", ROOT, "--alias", "prod", *where) == "storage.not-conformant"
    shardrel("init", *where)
    assert shardrel.code("admit", ROOT, "--alias", "prod", *where, status=2) == "input.key"

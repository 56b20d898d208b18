"""What a whole ``shardrel admit`` sends to an S3 server, by purpose: the verdict of the probe is part of it."""

import re
import uuid
from collections import Counter
from pathlib import Path

import pytest

from shardrel.store.probe import ProbeVerdict
from shardrel.store.s3 import S3Store
from shardrel.store.verdicts import keep
from shardrel.trust import keyring
from tests.support import gates
from tests.support.command import shardrel_in
from tests.support.fault_proxy import FaultProxy, Request
from tests.support.shared_server import S3Server
from tests.support.stores import client_of, quick_settings

ROOT = gates.a_root("one")
PURPOSES = {
    "verdict of the probe": r"GET .*/gates/corpus/probe$",
    "state with policy and head": r"GET .*/gates/corpus/state$",
    "intent": r"PUT .*/gates/corpus/operations/[^/]+$",
    "listing of the attestations": r"GET [^?]*\?.*list-type=2.*",
    "attestation": r"GET .*/attestations/.*",
    "transition": r"PUT .*/objects/.*",
    "swap": r"PUT .*/gates/corpus/state$",
}


def purpose(request: Request) -> str:
    """Which of the purposes a request has; itself where it has none."""
    line = f"{request.method} {request.path.replace('?x-id=GetObject', '').replace('?x-id=PutObject', '')}"
    return next((name for name, pattern in PURPOSES.items() if re.fullmatch(pattern, line)), line)


def test_six_requests_and_one_an_attestation(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    moto: S3Server,
    proxy: FaultProxy,
) -> None:
    prefix = f"test-{uuid.uuid4().hex[:12]}"
    store = S3Store(moto.plain, prefix, client=client_of(moto.endpoint_url), settings=quick_settings())
    keep(store, gates.DATASET, ProbeVerdict(checks=(), quoted_tokens=True), gates.NOW)
    gates.new_gate(store)
    gates.stage(store, ROOT)
    gates.attest(store, ROOT)
    keyring.save(tmp_path / "keys", gates.key("admin"))
    shardrel = shardrel_in(tmp_path, monkeypatch, capsys)
    where = ["--store", f"s3://{moto.plain}/{prefix}", "--endpoint-url", proxy.url, "--keys", "keys"]
    assert shardrel("--dataset", gates.DATASET, "admit", ROOT, "--alias", "prod", *where)["generation"] == 1
    asked = Counter(purpose(request) for request in proxy.requests)
    assert asked == {**dict.fromkeys(PURPOSES, 1), "attestation": 2}
    assert asked.total() == 6 + asked["attestation"]

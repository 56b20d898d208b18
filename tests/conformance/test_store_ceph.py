"""What the probe says of Ceph's S3 gateway, which keeps the promises in plain buckets and not in versioned ones."""

import uuid
from pathlib import Path

import pytest

from shardrel.store.probe import SHORT, probe
from tests.support.command import shardrel_in
from tests.support.shared_server import S3Server
from tests.support.stores import s3_store

pytestmark = pytest.mark.slow


def test_plain_buckets_are_used_with_bare_etags(ceph: S3Server) -> None:
    verdict = probe(s3_store(ceph.plain, ceph.endpoint_url), SHORT)
    assert (verdict.verdict, verdict.quoted_tokens) == ("PASSED", False)
    advisory = {check.name for check in verdict.checks if not check.ok}
    assert advisory == {"multipart-completion"}


def test_buckets_with_versions_are_refused_with_the_reason(ceph: S3Server) -> None:
    verdict = probe(s3_store(ceph.versioned, ceph.endpoint_url), SHORT)
    failed = {check.name for check in verdict.checks if check.required and not check.ok}
    assert failed >= {"create-second-refused", "create-race", "swap-stale-lost", "swap-race"}


def test_init_refuses_a_bucket_with_versions_and_goes_on_refusing(
    ceph: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shardrel = shardrel_in(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("SHARDREL_STORE", f"s3://{ceph.versioned}/init-{uuid.uuid4().hex[:12]}")
    refused = shardrel("init", status=1)["error"]
    assert refused["code"] == "storage.not-conformant"
    assert "create-race" in refused["context"]["checks"]
    assert shardrel.code("fence", "tombstones", "absent.jsonl") == "storage.not-conformant"

"""Objects made to exhaust or mislead whoever reads them end in a code, within bounded memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from shardrel.canonical import json
from shardrel.errors import ErrorCode
from shardrel.gate.view import read_gate
from shardrel.store.layout import object_key
from shardrel.store.local import LocalStore
from shardrel.store.objects import get_by_digest, put
from tests.support.publishing import Publishing, records_table, write_source
from tests.support.release_builder import a_release, a_world, codes
from verifier.verify import verify_release

GIB = 1 << 30


def test_a_root_manifest_of_a_gibibyte_is_refused_unread(tmp_path: Path) -> None:
    made = Publishing(store=LocalStore(tmp_path / "store"))
    made.init()
    source = write_source(tmp_path / "a.arrow", records_table(5))
    root = made.publish(made.snapshot(source), source).root
    path = tmp_path / "store" / object_key(root)
    os.truncate(path, GIB)  # sparse: costs no disk, and would cost a reader the memory
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))\n"
        "from shardrel.store.local import LocalStore\n"
        "from shardrel.store.objects import get_by_digest\n"
        "from shardrel.errors import IntegrityError\n"
        "try: get_by_digest(LocalStore(sys.argv[1]), sys.argv[2])\n"
        "except IntegrityError as err: print(err.code)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "store"), root]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == ErrorCode.STORAGE_TOO_LARGE, done.stderr
    report = verify_release(made.store, root, read_gate(made.store, made.dataset), world=a_world(made)).report
    assert (report.verdict, codes(report)) == ("FAILED", {ErrorCode.STORAGE_TOO_LARGE})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"size":', b'"size":-'),
        (b'"records":', b'"records":-'),
        (b'"id":"shard-', b'"id":"../shard-'),
        (b'"objectVersion":"', b'"objectVersion":"/etc/passwd'),
    ],
)
def test_a_root_with_an_impossible_value(old: bytes, new: bytes) -> None:
    built = a_release()
    data = get_by_digest(built.store, built.root)
    forged = data.replace(old, new, 1)
    assert forged != data
    root = put(built.store, forged, "application/json")[0].digest
    report = built.verified(root).report
    assert report.verdict == "FAILED"
    if b"objectVersion" in old:  # well formed, and no such version exists
        assert ErrorCode.STORAGE_ABSENT in codes(report)
    else:
        assert codes(report) == {ErrorCode.FORMAT_NOT_A_RECORD}


def test_a_record_nested_without_end() -> None:
    built = a_release()
    root = put(built.store, b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "application/json")[0].digest
    assert codes(built.verified(root).report) == {ErrorCode.FORMAT_NOT_A_RECORD}


def test_a_snapshot_that_a_root_only_claims(tmp_path: Path) -> None:
    """A root whose digest field and descriptor name different snapshots is caught before either is believed."""
    built = a_release()
    release = json.decode(get_by_digest(built.store, built.root), type(built.release))
    assert release.dataset_snapshot == release.objects.snapshot.digest
    forged = get_by_digest(built.store, built.root).replace(
        f'"datasetSnapshot":"{release.dataset_snapshot}"'.encode(),
        f'"datasetSnapshot":"sha256:{"0" * 64}"'.encode(),
    )
    root = put(built.store, forged, "application/json")[0].digest
    assert ErrorCode.ROOT_SNAPSHOT in codes(built.verified(root).report)


@pytest.mark.parametrize("place", ["shard", "snapshot", "index"])
@pytest.mark.parametrize("writer", ["front-coded", "dictionary"])
def test_sample_ids_that_would_unfold_to_gigabytes(place: str, writer: str) -> None:
    """Some hundred kilobytes hold 60,000 ids of 30 kB, 1.8 GB in all."""
    command = [sys.executable, "-m", "tests.support.bombs", place, writer]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    too_long = {
        "shard": ErrorCode.PARQUET_EXPANSION,
        "snapshot": ErrorCode.SNAPSHOT_INVALID,
        "index": ErrorCode.MEMBER_INDEX,
    }
    expected = ErrorCode.PARQUET_EXPANSION if writer == "front-coded" else too_long[place]
    assert done.returncode == 0, done.stderr[-2000:]
    grown, *found = done.stdout.split()
    assert expected in found
    assert int(grown) < 500_000_000


@pytest.mark.parametrize(
    "declared", [{"size": (2 << 30) + 1}, {"logical_bytes": (4 << 30) + 1}, {"records": (1 << 24) + 1}]
)
def test_a_shard_that_is_declared_larger_than_any_is_not_read(declared: dict[str, int]) -> None:
    built = a_release()
    entry = built.release.shards[0]
    gone = f"sha256:{'0' * 64}"  # whoever read it would find it absent
    built.declare(0, replace(entry, digest=gone, **declared))
    found = {finding.code for finding in built.report().findings if finding.subject == entry.id}
    assert found == {ErrorCode.PARQUET_EXPANSION}


def test_sample_ids_of_a_shard_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verifier.shard.MAX_IDS", 10)
    assert ErrorCode.PARQUET_EXPANSION in codes(a_release().report())

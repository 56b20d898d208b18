"""The drill on a real S3 server: killed at requests, recovered, and the bundle is checked as any other."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shardrel.cli.drill_crash import take_stores_away
from shardrel.lab.fashion import Pins
from shardrel.lab.judge import final
from shardrel.lab.processes import IsolatedProcesses
from shardrel.lab.stores import ServerStores
from shardrel.lab.tasks import Server
from shardrel.lab.verify import verify_bundle
from shardrel.trust.keys import SigningKey
from tests.support.lab import PACKAGE, a_drill
from tests.support.stores import s3_store
from tests.support.torchrun import ROOT

if TYPE_CHECKING:
    from tests.support.shared_server import S3Server


def stores_of(server: "S3Server", bucket: str) -> ServerStores:
    """Three fresh prefixes of a bucket."""
    return ServerStores(s3_store(bucket, server.endpoint_url).url, Server(endpoint_url=None, quoted_tokens=True))


@pytest.mark.parametrize(
    ("barrier", "landed"),
    [pytest.param("commit-before-put", False, marks=pytest.mark.slow), ("commit-after-put", True)],
)
def test_the_request_that_installs_the_commit_record_decides(
    barrier: str,
    landed: bool,
    seaweed: "S3Server",
    data: tuple[Path, Pins],
    key: SigningKey,
    tmp_path: Path,
) -> None:
    folder, stores = tmp_path / "drill", stores_of(seaweed, seaweed.versioned)
    done = a_drill(folder, data, barrier, key, stores=stores)
    assert done.problems == ()
    recovery = done.observed.recovery
    killed = recovery.events[-1]
    assert (killed.step, killed.operation, killed.place) == ("answer" if landed else "request", "put_object", "commit")
    assert (recovery.installed, recovery.admitted, recovery.choice.helped) == (landed, False, landed)
    last = final(recovery.lineages)
    assert (recovery.choice.generation, last.generation, last.step) == ((1, 3, 3) if landed else (0, 2, 2))
    assert take_stores_away(stores)
    prefix = stores.base.removeprefix(f"s3://{seaweed.versioned}/")
    left = seaweed.client().list_object_versions(Bucket=seaweed.versioned, Prefix=prefix)
    assert not left.get("Versions")
    # What is in the bundle needs no server.
    verified = verify_bundle(folder, [key.public], data[1], PACKAGE)
    assert (verified.failures, verified.unproven) == ((), ())


def swept(folder: Path, url: str, *words: object) -> tuple[int, list[dict[str, Any]]]:
    """Number of requests of a transaction, and what came of each point."""
    line = [sys.executable, "-m", "tests.support.lab_sweep", str(folder), url, *(str(word) for word in words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    first, *points = (json.loads(line) for line in done.stdout.splitlines())
    return first["requests"], points


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.parametrize("bucket", ["plain", "versioned"])
def test_every_request_before_and_after(bucket: str, seaweed: "S3Server", tmp_path: Path) -> None:
    url = s3_store(getattr(seaweed, bucket), seaweed.endpoint_url).url
    ranks = (2, 1) if bucket == "plain" else (1, 2)
    count, points = swept(tmp_path / "sweep", url, 1, 0, *ranks)
    assert len(points) == 2 * count
    assert [one for one in points if one["problems"] or one["status"] != -9] == []
    for one in points:
        end = 3 if one["installed"] else 2
        assert one["end"] == [end, end, ranks[1]], one
        assert (one["selected"], one["helped"]) == (int(one["installed"]), one["installed"] and not one["admitted"])
    # One state and one ledger a step, wherever the publisher was killed.
    assert len({(one["end"][1], one["state"], one["ledger"]) for one in points}) == 2
    assert points[-1]["admitted"]
    assert points[-1]["killed"] == ["answer", "put_object", "gate-state"]


@pytest.mark.slow
@pytest.mark.distributed
def test_the_drill_with_real_processes_on_a_server(
    seaweed: "S3Server", data: tuple[Path, Pins], key: SigningKey, tmp_path: Path
) -> None:
    def real(logs: Path) -> IsolatedProcesses:
        return IsolatedProcesses(environment=dict(os.environ), logs=logs)

    stores = stores_of(seaweed, seaweed.plain)
    done = a_drill(tmp_path / "drill", data, "commit-after-put", key, ranks=(4, 3), processes=real, stores=stores)
    assert done.problems == ()
    recovery = done.observed.recovery
    assert sum(len(group.exits) for group in recovery.groups) == 19
    assert (recovery.publisher.status, recovery.publisher.reaped) == (-9, True)
    last = final(recovery.lineages)
    assert (last.generation, last.step, last.world_size) == (3, 3, 3)
    assert verify_bundle(tmp_path / "drill", [key.public], data[1], PACKAGE).failures == ()

"""The drill on a real S3 server: killed at requests, recovered, and the bundle is checked as any other."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

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
from tests.support.lab_swept import check_points, swept
from tests.support.stores import s3_store

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


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.parametrize(
    ("bucket", "every", "ranks"),
    [("plain", 1, (2, 1)), ("versioned", 3, (1, 2))],
    ids=["without versions, all points", "with versions, every third"],
)
def test_requests_before_and_after(
    bucket: str, every: int, ranks: tuple[int, int], seaweed: "S3Server", tmp_path: Path
) -> None:
    url = s3_store(getattr(seaweed, bucket), seaweed.endpoint_url).url
    count, points = swept(tmp_path / "sweep", url, every, every - 1, *ranks)
    assert len(points) == 2 * count // every
    check_points(points, ranks)
    if every == 1:
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

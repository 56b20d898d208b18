"""A state sharded by FSDP2 over hosts that share nothing but an S3 server, through torch.distributed.checkpoint."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shardrel.checkpoint.commits import read_run
from shardrel.checkpoint.preflight import read_commit
from shardrel.errors import ErrorCode
from shardrel.store.port import Store
from tests.support.checkpoints import ROOT, RUN
from tests.support.gates import DATASET, key
from tests.support.hosts import Cluster, DiskHost, cluster, go, job
from tests.support.runs import started_run
from tests.support.stores import s3_store, use

pytestmark = [pytest.mark.distributed, pytest.mark.slow]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("hosts"), 3) as made:
        yield made


@pytest.fixture
def hosts(place: Cluster, tmp_path: Path) -> Iterator[list[DiskHost]]:
    hosts = place.disks(tmp_path)
    for one in hosts:
        (one.kept / "key.pem").write_bytes(key("admin").to_pem())
    try:
        yield hosts
    finally:
        for one in hosts:
            one.host.plug()


@pytest.fixture
def store(place: Cluster, monkeypatch: pytest.MonkeyPatch) -> Store:
    use(place.server, monkeypatch)
    store = s3_store(place.server.versioned, place.server.endpoint_url)
    started_run(store, ROOT, RUN)
    return store


def done(place: Cluster, hosts: list[DiskHost], store: Store, *words: object) -> list[dict[str, Any]]:
    """The one event of each rank."""
    line = ["sharded_host_worker.py", store.url, hosts[0].disk, *words]
    with job(hosts, place.server, line, {}) as ranks:
        ended = [one.end(120) for one in ranks]
    assert [status for status, _, _ in ended] == [0] * len(hosts), ended
    return [event for _, events, _ in ended for event in events]


def test_what_three_hosts_saved_two_others_load_and_save_on(
    place: Cluster, hosts: list[DiskHost], store: Store
) -> None:
    saved = done(place, hosts, store, "save", "--step", 3)
    assert [(one["event"], one["generation"]) for one in saved] == [("saved", 0)] * 3
    loaded = done(place, hosts[1:], store, "load", "--step", 3)
    assert [(one["generation"], one["step"], one["saved_by"]) for one in loaded] == [(0, 3, 3)] * 2
    assert len({one["state"] for one in saved + loaded}) == 1


def test_a_host_that_is_cut_off_in_a_sharded_save_leaves_no_generation(
    place: Cluster, hosts: list[DiskHost], store: Store
) -> None:
    saved = done(place, hosts, store, "save", "--step", 3)
    line = ["sharded_host_worker.py", store.url, hosts[0].disk, "save", "--step", 4, "--timeout", 8]
    with job(hosts, place.server, line, {2: ["--hold", "create:object:before"]}) as ranks:
        ranks[2].line("holding")
        hosts[2].host.unplug()
        go(ranks[2])
        ended = [one.end(90) for one in ranks[:2]]
    failed = [(event["code"], event["event"]) for _, events, _ in ended for event in events]
    assert failed == [(ErrorCode.RUN_RANK_FAILED, "failed")] * 2, ended
    head = read_run(store, DATASET, RUN).head
    assert head is not None
    assert (head.generation, read_commit(store, RUN, 1)) == (0, None)
    loaded = done(place, hosts[:2], store, "load", "--step", 3)
    assert {one["state"] for one in loaded} == {one["state"] for one in saved}

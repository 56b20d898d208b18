"""Ranks on hosts of their own, as network namespaces: cables are pulled, and who is cut off is named."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shardrel.errors import ErrorCode
from shardrel.store.local import LocalStore
from shardrel.trust.keyring import save
from tests.support.namespaces import Host, network
from tests.support.rank_processes import RankProcess, start_rank
from tests.support.torchrun import ROOT
from tests.support.training import TrainingWorld, training_world

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

PORT = 29_400


@pytest.fixture
def world(tmp_path: Path) -> TrainingWorld:
    world = training_world(LocalStore(str(tmp_path / "store")), tmp_path, records=40, shards=5)
    save(tmp_path / "keys", world.signer)
    return world


@contextmanager
def job(folder: Path, hosts: list[Host], *words: object) -> Iterator[list[RankProcess]]:
    """A rank on each host, each with a cache of its own."""
    ranks = []
    for rank, host in enumerate(hosts):
        line = [folder / "store", folder / f"cache-{rank}", "--keys", folder / "keys", *words]
        ranks.append(
            start_rank(
                ROOT / "tests" / "distributed" / "worker.py",
                rank,
                len(hosts),
                line,
                port=PORT,
                host=hosts[0].address,
                interface=host.interface,
                prefix=host.prefix,
            )
        )
    try:
        yield ranks
    finally:
        for one in ranks:
            one.process.kill()
            one.process.communicate()


@contextmanager
def hosts() -> Iterator[list[Host]]:
    with network(3) as made:
        yield made


def test_a_job_trains_over_three_hosts(world: TrainingWorld, tmp_path: Path) -> None:
    with hosts() as made, job(tmp_path, made, "--steps", 12, "--checkpoint-every", 4, "--timeout", 60) as ranks:
        ended = [one.end() for one in ranks]
    assert [status for status, _, _ in ended] == [0, 0, 0], ended
    for _, events, _ in ended:
        assert [one["root"] for one in events if one["event"] == "joined"] == [world.root]
        assert [one["samples"] for one in events if one["event"] == "step"] == [8] * 12


@pytest.mark.parametrize("cut_off", [0, 2])
def test_a_host_whose_cable_is_pulled_is_named_by_the_others(
    world: TrainingWorld, tmp_path: Path, cut_off: int
) -> None:
    with hosts() as made, job(tmp_path, made, "--steps", 10_000, "--timeout", 10) as ranks:
        for one in ranks:
            one.line("step")
        made[cut_off].unplug()
        ended = [one.end(120) for one in ranks if one.rank != cut_off]
    failed = [event for _, events, _ in ended for event in events if event["event"] == "failed"]
    code = ErrorCode.RUN_TIMEOUT if cut_off == 0 else ErrorCode.RUN_RANK_FAILED
    assert [(one["code"], one["ranks"]) for one in failed] == [(code, [str(cut_off)])] * 2, ended


def test_a_host_that_is_cut_off_before_step_0_is_named_by_the_others(world: TrainingWorld, tmp_path: Path) -> None:
    with hosts() as made:
        made[2].unplug()
        with job(tmp_path, made, "--steps", 4, "--timeout", 10) as ranks:
            ended = [one.end(120) for one in ranks if one.rank != 2]
    events = [event for _, events, _ in ended for event in events]
    assert [(one["code"], one["ranks"]) for one in events if one["event"] == "failed"] == [
        (ErrorCode.RUN_TIMEOUT, ["2"])
    ] * 2, ended
    assert not [one for one in events if one["event"] in ("joined", "step")]

"""Hosts with disks of their own that share an S3 server: one is cut off, or the server dies, in the middle of a save."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shardrel import clock
from shardrel.checkpoint.commits import read_run
from shardrel.checkpoint.preflight import read_commit
from shardrel.checkpoint.recovery import admitted_in_history
from shardrel.cli.drill_crash import the_programs
from shardrel.data import ledger
from shardrel.data.cache import ShardCache
from shardrel.errors import ErrorCode
from shardrel.gate.log import read_entries
from shardrel.lab.fashion import read_table
from shardrel.lab.model import Training, state_root
from shardrel.lab.scene import DATASET, RUN, prepare
from shardrel.store.port import Store
from shardrel.train.admission import join
from shardrel.train.group import connect
from shardrel.train.session import steps
from tests.distributed.host_worker import PLAN, SEED
from tests.support.hosts import Cluster, DiskHost, cluster, go, job
from tests.support.lab import make_data
from tests.support.publishing import NOW
from tests.support.rank_processes import RankProcess
from tests.support.stores import s3_store, use

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

STEPS, EVERY, HELD = 6, 2, 4
PATIENCE = 12
Reached = tuple[str, str]
Ended = tuple[int, list[dict[str, Any]], str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("hosts"), 3) as made:
        yield made


@dataclass(frozen=True, kw_only=True)
class World:
    """A release and a run of it on the server, and what an uninterrupted job comes to: ledger and state by step."""

    place: Cluster
    hosts: list[DiskHost]
    store: Store
    reference: dict[int, Reached]

    def words(self, *more: object) -> list[object]:
        """What every rank is started with."""
        disk = self.hosts[0].disk
        return ["host_worker.py", self.store.url, disk, "--steps", STEPS, "--checkpoint-every", EVERY, *more]


@pytest.fixture
def world(place: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    use(place.server, monkeypatch)
    store = s3_store(place.server.versioned, place.server.endpoint_url)
    table = read_table(tmp_path / "data", make_data(tmp_path / "data"))
    hosts = place.disks(tmp_path)
    for one in hosts:
        # The keys are written on this machine and laid on every host's disk, as an operator does it.
        (one.kept / "keys").mkdir()
    prepare(store, hosts[0].kept / "keys", tmp_path / "source.arrow", table, the_programs(), lambda: NOW)
    for one in hosts[1:]:
        subprocess.run(["cp", "-a", str(hosts[0].kept / "keys"), str(one.kept)], check=True)
    try:
        yield World(place=place, hosts=hosts, store=store, reference=uninterrupted(store, tmp_path / "cache"))
    finally:
        for one in hosts:
            one.host.plug()


def uninterrupted(store: Store, cache_folder: Path) -> dict[int, Reached]:
    cache, training = ShardCache(cache_folder, store), Training(SEED)
    reached: dict[int, Reached] = {}
    with connect() as group:
        pin = join(group, store, cache, dataset=DATASET, run=RUN, plan=PLAN)
        for batch in steps(group, cache, pin, ledger.genesis(pin.identity)):
            training.step(group, batch)
            reached[batch.after.step] = (batch.after.ledger, state_root(training.state))
            if batch.after.step == STEPS:
                return reached
    raise AssertionError("the steps end")


def ends(world: World, hosts: list[DiskHost], *more: object) -> list[dict[str, Any]]:
    """Train to the end on these hosts; how each rank resumed. All of them end in the state that nothing interrupted."""
    with job(hosts, world.place.server, world.words(*more), {}) as ranks:
        ended = [one.end(120) for one in ranks]
    assert [status for status, _, _ in ended] == [0] * len(hosts), said(ended)
    check_ends(world, ended)
    return [event for _, events, _ in ended for event in events if event["event"] == "resumed"]


def said(ended: list[Ended]) -> str:
    """What somebody wants to see of ranks that ended otherwise."""
    return "\n".join(f"{status} {events}\n{err[-2500:]}" for status, events, err in ended)


def check_ends(world: World, ended: list[Ended]) -> None:
    for _, events, _ in ended:
        (end,) = [event for event in events if event["event"] == "end"]
        assert (end["ledger"], end["state"]) == world.reference[end["step"]]


def check_lineage(world: World) -> None:
    """Generations 0, 1, 2 at steps 2, 4, 6: each admitted once, each with the ledger of the uninterrupted job."""
    admitted = admitted_in_history(world.store, DATASET, RUN)
    assert sorted(admitted) == [0, 1, 2]
    kinds = Counter(entry.kind for entry in read_entries(world.store, DATASET))
    assert kinds["admit-checkpoint"] == 3
    for generation, step in enumerate((2, 4, 6)):
        found = read_commit(world.store, RUN, generation)
        assert found is not None
        assert found.digest == admitted[generation].commit
        assert (found.record.cut.step, found.record.cut.ledger) == (step, world.reference[step][0])
    assert read_commit(world.store, RUN, 3) is None


def head(world: World) -> int:
    found = read_run(world.store, DATASET, RUN).head
    assert found is not None
    return found.generation


def test_hosts_that_share_nothing_but_a_server_train_as_one(world: World) -> None:
    mine, other = world.hosts[:2]
    subprocess.run([*mine.prefix, "touch", str(mine.disk / "mine")], check=True)
    seen = subprocess.run([*other.prefix, "ls", str(other.disk)], check=True, capture_output=True, text=True)
    assert (seen.stdout.split(), list(mine.disk.iterdir())) == (["keys"], [])

    begun = ends(world, world.hosts)
    assert [(one["step"], one["generation"]) for one in begun] == [(0, None)] * 3
    check_lineage(world)
    assert all(any((one.kept / "cache").rglob("*")) for one in world.hosts)


def failures(ranks: list[RankProcess]) -> list[tuple[str, list[str]]]:
    """Code and guilty ranks that each of these says within its time-out."""
    ended = [one.end(60) for one in ranks]
    found = [
        (event["code"], event["ranks"]) for _, events, _ in ended for event in events if event["event"] == "failed"
    ]
    assert [status for status, _, _ in ended] == [3] * len(ranks), said(ended)
    return found


@pytest.mark.parametrize(
    ("rank", "hold"), [(2, "create:object:before"), (1, "create:object:after")], ids=lambda value: str(value)
)
def test_a_host_that_is_cut_off_while_it_saves_is_named_and_nothing_is_committed(
    world: World, rank: int, hold: str
) -> None:
    own = {rank: ["--hold", hold, "--hold-step", HELD]}
    with job(world.hosts, world.place.server, world.words("--timeout", PATIENCE), own) as ranks:
        ranks[rank].line("holding")
        world.hosts[rank].host.unplug()
        go(ranks[rank])
        assert failures([one for one in ranks if one.rank != rank]) == [(ErrorCode.RUN_TIMEOUT, [str(rank)])] * 2
    assert head(world) == 0
    assert read_commit(world.store, RUN, 1) is None

    begun = ends(world, [one for number, one in enumerate(world.hosts) if number != rank])
    assert [(one["step"], one["generation"], one["saved_by"]) for one in begun] == [(2, 0, 3)] * 2
    check_lineage(world)


@pytest.mark.parametrize(
    ("hold", "installed"),
    [("create:commit:before", False), ("swap:gate-state:before", True)],
)
def test_a_coordinator_that_is_cut_off_and_comes_back_later_changes_nothing(
    world: World, hold: str, installed: bool
) -> None:
    own = {0: ["--hold", hold, "--hold-step", HELD]}
    with job(world.hosts, world.place.server, world.words("--timeout", PATIENCE), own) as ranks:
        ranks[0].line("holding")
        world.hosts[0].host.unplug()
        assert failures(ranks[1:]) == [(ErrorCode.RUN_TIMEOUT, ["0"])] * 2
        assert head(world) == 0
        assert (read_commit(world.store, RUN, 1) is not None) == installed

        begun = ends(world, world.hosts[1:])
        wanted = (4, 1, 3, True) if installed else (2, 0, 3, False)
        assert [(one["step"], one["generation"], one["saved_by"], one["helped"]) for one in begun] == [wanted] * 2
        check_lineage(world)

        world.hosts[0].host.plug()
        go(ranks[0])
        status, events, err = ranks[0].end(120)
        assert status in (1, 3), err[-3000:]
        # Its checkpoint may have been admitted for it; then it is told so, and fails at the next one.
        told = [(event["event"], event.get("generation")) for event in events if event["event"] != "step"]
        assert told in ([("failed", None)], [("saved", 1), ("failed", None)]) if installed else [("failed", None)], (
            events
        )
    check_lineage(world)


@pytest.mark.parametrize(
    ("rank", "hold", "outage"),
    [
        (1, "create:object:before", "short"),
        (0, "create:commit:before", "in flight"),
        (0, "swap:gate-state:before", "in flight"),
        (0, "create:commit:after", "long"),
    ],
)
def test_a_server_that_is_killed_while_a_job_saves_loses_nothing_and_commits_once(
    world: World, rank: int, hold: str, outage: str
) -> None:
    machine = world.place.machine
    own = {rank: ["--hold", hold, "--hold-step", HELD]}
    with job(world.hosts, world.place.server, world.words("--timeout", 40), own) as ranks:
        ranks[rank].line("holding")
        if outage == "in flight":
            machine.freeze()
            go(ranks[rank])
            clock.sleep(0.5)  # until its request has arrived where nobody reads it
            machine.kill()
            machine.start()
        else:
            machine.kill()
            if outage == "short":
                machine.start()
            go(ranks[rank])
        ended = [one.end(120) for one in ranks]
    failed = {event["code"] for _, events, _ in ended for event in events if event["event"] == "failed"}
    statuses = [status for status, _, _ in ended]
    if outage == "long":
        assert failed <= {ErrorCode.STORE_UNAVAILABLE, ErrorCode.OUTCOME_CREATE, ErrorCode.OUTCOME_SWAP}, said(ended)
        assert set(statuses) <= {3, 4}, said(ended)
        machine.start()
        assert (head(world), read_commit(world.store, RUN, 1) is not None) == (0, hold == "create:commit:after")
        begun = ends(world, world.hosts)
        assert {one["step"] for one in begun} == {4 if hold == "create:commit:after" else 2}
    else:
        assert statuses == [0, 0, 0], said(ended)
        check_ends(world, ended)
    check_lineage(world)

"""Real processes before step 0: whatever is wrong with one of them fails all of them, by one code that names it."""

import signal
from pathlib import Path
from typing import Any

import pytest

from shardrel.digest import raw_digest
from shardrel.errors import ErrorCode
from shardrel.store.local import LocalStore
from shardrel.trust.keyring import save
from tests.support.rank_processes import RankProcess, free_port, job, start_rank
from tests.support.torchrun import ROOT
from tests.support.training import TrainingWorld, training_world

pytestmark = pytest.mark.distributed

WORKER = ROOT / "tests" / "distributed" / "worker.py"
ALIVE = [
    ("other-run", ErrorCode.RUN_ROOT_DISAGREEMENT),
    ("other-root", ErrorCode.RUN_ROOT_DISAGREEMENT),
    ("other-split", ErrorCode.RUN_ROOT_DISAGREEMENT),
    ("other-version", ErrorCode.RUN_VERSION),
    ("other-order", ErrorCode.RUN_VERSION),
    ("bad-bytes", ErrorCode.STORAGE_DIGEST),
    ("old-cache", ErrorCode.STORAGE_ABSENT),
]


@pytest.fixture
def world(tmp_path: Path) -> TrainingWorld:
    world = training_world(LocalStore(str(tmp_path / "store")), tmp_path, records=40, shards=5)
    save(tmp_path / "keys", world.signer)
    return world


def place(folder: Path, *words: object) -> list[object]:
    return [folder / "store", folder / "cache", "--keys", folder / "keys", *words]


def failures(ranks: list[RankProcess]) -> list[dict[str, Any]]:
    """How each of them failed; none may have joined."""
    found = []
    for one in ranks:
        status, events, err = one.end()
        failed = [event for event in events if event["event"] == "failed"]
        assert failed, (one.rank, status, err[-2000:])
        assert not [event for event in events if event["event"] in ("joined", "step")]
        found += failed
    return found


def test_one_odd_rank_fails_all_by_one_code_and_the_next_job_joins(world: TrainingWorld, tmp_path: Path) -> None:
    scenarios = [name for name, _ in ALIVE]
    for shard in world.release.shards:
        name = raw_digest(shard.digest).hex()
        old = tmp_path / "cache" / "old" / "sha256" / name[:2] / name
        old.parent.mkdir(parents=True, exist_ok=True)
        old.write_bytes(b"of another release")
    with job(WORKER, 3, place(tmp_path, "--scenario", *scenarios, "usual")) as ranks:
        ended = [one.end() for one in ranks]
    assert [status for status, _, _ in ended] == [0, 0, 0], ended
    for rank, (_, events, _) in enumerate(ended):
        failed = [(one["scenario"], one["code"]) for one in events if one["event"] == "failed"]
        assert failed == ALIVE
        assert all(one["ranks"] == ["2"] for one in events if one["event"] == "failed")
        assert [one["root"] for one in events if one["event"] == "joined"] == [world.root], rank


@pytest.mark.slow
@pytest.mark.parametrize("odd", [0, 1])
@pytest.mark.parametrize("scenario", ["dies", "hangs", "dies-verifying"])
def test_a_rank_that_dies_or_hangs_is_named_by_all_others_in_time(
    world: TrainingWorld, tmp_path: Path, scenario: str, odd: int
) -> None:
    """Rank 0 hosts the rendezvous store, so with it the means to agree are gone too."""
    words = ["--scenario", scenario, "--odd", odd, "--timeout", 8]
    with job(WORKER, 3, place(tmp_path, *words)) as ranks:
        found = failures([one for one in ranks if one.rank != odd])
    assert {one["code"] for one in found} == {ErrorCode.RUN_TIMEOUT}
    assert all(one["ranks"] == [str(odd)] for one in found)


@pytest.mark.slow
def test_a_rank_that_never_starts_is_named_by_all_others(world: TrainingWorld, tmp_path: Path) -> None:
    port = free_port()
    ranks = [start_rank(WORKER, rank, 3, place(tmp_path, "--timeout", 6), port=port) for rank in (0, 2)]
    found = failures(ranks)
    assert {(one["code"], *one["ranks"]) for one in found} == {(ErrorCode.RUN_TIMEOUT, "1")}


@pytest.mark.slow
def test_a_replacement_that_comes_late_is_refused_and_the_job_trains_on(world: TrainingWorld, tmp_path: Path) -> None:
    words = place(tmp_path, "--steps", 40, "--pause", 0.5, "--timeout", 30)
    port = free_port()
    ranks = [start_rank(WORKER, rank, 2, words, port=port) for rank in range(2)]
    ranks[0].line("step")
    late = start_rank(WORKER, 1, 2, place(tmp_path, "--timeout", 5), port=port)
    (found,) = failures([late])
    assert (found["code"], found["ranks"]) == (ErrorCode.RUN_SEAT_TAKEN, ["1"])
    for one in ranks:
        status, events, err = one.end()
        assert status == 0, err
        assert [event["step"] for event in events if event["event"] == "step"][-1] == 39


@pytest.mark.slow
@pytest.mark.parametrize("odd", [0, 2])
def test_a_rank_that_is_killed_between_steps_is_named_by_all_others(
    world: TrainingWorld, tmp_path: Path, odd: int
) -> None:
    with job(WORKER, 3, place(tmp_path, "--steps", 1000, "--timeout", 10)) as ranks:
        for one in ranks:
            one.line("step")
        ranks[odd].signal(signal.SIGKILL)
        ended = [one.end() for one in ranks if one.rank != odd]
    failed = [event for _, events, _ in ended for event in events if event["event"] == "failed"]
    assert len(failed) == 2, ended
    # Without rank 0 there is no store to hold a roll call in: it is named as what is gone.
    code = ErrorCode.RUN_TIMEOUT if odd == 0 else ErrorCode.RUN_RANK_FAILED
    assert {(one["code"], *one["ranks"]) for one in failed} == {(code, str(odd))}
    assert {status for status, _, _ in ended} == {3}

"""What the drill shows on either side of the commit record's installation."""

import os
from pathlib import Path

import pytest

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.lab.bundle import RECOVERED, RECOVERY, REFERENCE
from shardrel.lab.conduct import make_folder
from shardrel.lab.evidence import Recovery
from shardrel.lab.fashion import Pins
from shardrel.lab.judge import final
from shardrel.lab.processes import IsolatedProcesses
from shardrel.trust.keys import SigningKey
from tests.support.lab import Drilled, a_drill
from tests.support.lab_swept import check_points, swept


def choice(recovery: Recovery) -> tuple[int, int, str, bool, int]:
    """Generation, step, hint, whether it was helped, and the batches that were trained twice."""
    chosen = recovery.choice
    return chosen.generation, chosen.step, chosen.hint, chosen.helped, recovery.replayed


def end(recovery: Recovery) -> tuple[int, int]:
    last = final(recovery.lineages)
    return last.generation, last.step


def test_a_draft_that_is_durable_and_has_no_name_is_not_selectable(fsync: Drilled) -> None:
    recovery = fsync.done.observed.recovery
    assert fsync.done.problems == ()
    assert (recovery.installed, recovery.admitted) == (False, False)
    assert choice(recovery) == (0, 1, "current", False, 1)
    assert end(recovery) == (2, 2)


def test_a_record_that_has_its_name_is_helped_before_the_head_knows_it(rename: Drilled) -> None:
    recovery = rename.done.observed.recovery
    assert rename.done.problems == ()
    assert (recovery.installed, recovery.admitted) == (True, False)
    assert choice(recovery) == (1, 2, "stale", True, 0)
    assert end(recovery) == (3, 3)


def test_the_transcripts_agree_up_to_the_one_event_more(fsync: Drilled, rename: Drilled) -> None:
    shorter, longer = (one.done.observed.recovery.events for one in (fsync, rename))
    assert longer[:-1] == shorter
    assert [(one.step, one.place) for one in longer[-2:]] == [("file-fsync", "commit"), ("rename", "commit")]


def test_two_runs_of_one_seed_leave_the_same_facts(
    fsync: Drilled, data: tuple[Path, Pins], key: SigningKey, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    a_drill(again, data, "commit-after-file-fsync", key)
    for name in (REFERENCE, RECOVERED, RECOVERY, "audit.json", "audit.dsse.json"):
        assert (again / name).read_bytes() == (fsync.folder / name).read_bytes()


@pytest.mark.parametrize("place", ["gate-after-rename", "store-1-before"])
def test_other_points_are_judged_by_the_same_rules(
    place: str, data: tuple[Path, Pins], key: SigningKey, tmp_path: Path
) -> None:
    done = a_drill(tmp_path / "drill", data, place, key)
    assert done.problems == ()
    recovery = done.observed.recovery
    assert choice(recovery) == ((1, 2, "current", False, 0) if recovery.admitted else (0, 1, "current", False, 1))
    assert recovery.admitted == (place == "gate-after-rename")


def test_a_folder_that_is_there_is_not_gone_on_with(fsync: Drilled) -> None:
    with pytest.raises(InvalidInputError) as refused:
        make_folder(fsync.folder)
    assert refused.value.code == ErrorCode.INPUT_INVALID


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.parametrize("barrier", ["commit-after-file-fsync", "commit-after-rename"])
@pytest.mark.parametrize("ranks", [(2, 6), (6, 1), (3, 5)])
def test_the_drill_with_real_processes(
    ranks: tuple[int, int], barrier: str, data: tuple[Path, Pins], key: SigningKey, tmp_path: Path
) -> None:
    def real(logs: Path) -> IsolatedProcesses:
        return IsolatedProcesses(environment=dict(os.environ), logs=logs)

    done = a_drill(tmp_path / "drill", data, barrier, key, ranks=ranks, processes=real)
    assert done.problems == ()
    recovery = done.observed.recovery
    assert sum(len(group.exits) for group in recovery.groups) == 4 * ranks[0] + ranks[1]
    assert (recovery.publisher.status, recovery.publisher.reaped) == (-9, True)
    assert end(recovery) == ((2, 2) if barrier == "commit-after-file-fsync" else (3, 3))


@pytest.mark.slow
@pytest.mark.distributed
def test_every_store_operation_before_and_after(tmp_path: Path) -> None:
    ranks = (2, 1)
    count, points = swept(tmp_path / "sweep", str(tmp_path / "stores"), 1, 0, *ranks)
    assert len(points) == 2 * count
    check_points(points, ranks)
    assert points[-1]["admitted"]
    assert points[-1]["killed"] == ["end", "swap", "gate-state"]

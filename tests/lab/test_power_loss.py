"""Power is lost at every moment of a transaction, and what a disk may hold then is recovered from."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from shardrel import clock
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.lab.power import judge
from shardrel.lab.power.campaign import Campaign, Examined, replayer
from shardrel.lab.power.conduct import record_story
from shardrel.lab.power.folder import memory
from shardrel.lab.power.leaving_out import Kind, leaving_out
from shardrel.lab.power.marks import Recorded
from shardrel.lab.power.recorder import ended, record
from tests.support.command import Command, shardrel_in
from tests.support.power import forgetting, recorded, states, wrong

DRAFTS, OBJECTS, GATE = "store/tmp", "store/objects", "store/gates/data"


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return shardrel_in(tmp_path, monkeypatch, capsys)


@pytest.fixture
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="shardrel-power-loss-", dir=memory()) as folder:
        yield Path(folder)


def strace() -> bool:
    """Whether strace is there; from Debian where it was not."""
    if shutil.which("strace") is None:
        install = ["apt-get", "install", "-y", "--no-install-recommends", "strace"]
        subprocess.run(install, check=False, capture_output=True)
    return shutil.which("strace") is not None


def test_every_state_of_a_recorded_store_is_recovered_from(scratch: Path) -> None:
    found = states(recorded())
    assert len(found) > 100
    assert list(wrong(scratch, found)) == []


@pytest.mark.parametrize(
    ("files", "below", "expected"),
    [
        (True, DRAFTS, "torn"),
        (False, OBJECTS, "lost"),
        (False, GATE, "went back"),
        (False, "store/runs", "lost"),
        (False, "", "lost"),
    ],
)
def test_a_store_that_forgets_to_make_something_durable_is_found_out(
    scratch: Path, files: bool, below: str, expected: str
) -> None:
    forgetful = forgetting(recorded(), files=files, below=below)
    assert any(one.startswith(expected) for one in wrong(scratch, states(forgetful)))


def test_without_strace_the_drill_says_how_to_get_it(shardrel: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    error = shardrel("drill", "power-loss", status=2)["error"]
    assert error["code"] == ErrorCode.INPUT_INVALID
    assert "apt-get install strace" in error["message"]


def test_options_of_one_drill_are_refused_for_another(shardrel: Command) -> None:
    for line in (["lost-acknowledgement", "--every", "2"], ["power-loss", "--barrier", "commit-after-rename"]):
        assert shardrel("drill", *line, status=2)["error"]["code"] == ErrorCode.INPUT_INVALID
    if strace():
        for line in (["--leave-out", "x"], ["--only", "x"]):
            assert shardrel("drill", "power-loss", *line, status=2)["error"]["code"] == ErrorCode.INPUT_INVALID


def test_some_states_of_a_real_transaction(shardrel: Command) -> None:
    if not strace():
        assert shardrel("drill", "power-loss", status=2)["error"]["code"] == ErrorCode.INPUT_INVALID
        return
    answer = shardrel("drill", "power-loss", "--only", "run-start", "--every", "5")
    assert (answer["outcome"], answer["every"], answer["leftOut"]) == ("PASSED", 5, None)
    [found] = answer["transactions"]
    assert (found["name"], found["violations"]) == ("run-start", [])
    assert found["states"] > found["crashPoints"] == found["systemCalls"] > 20
    assert found["judged"] < found["states"] + found["statesBehindRuns"]


@pytest.mark.slow
def test_some_states_of_a_forgetful_transaction_fail_the_drill(shardrel: Command) -> None:
    assert strace()
    line = ["drill", "power-loss", "--only", "admit", "--leave-out", "folder", "--every", "3"]
    answer = shardrel(*line, status=1)
    assert (answer["outcome"], answer["leftOut"]) == ("FAILED", "folder")
    assert answer["transactions"][0]["violations"]


@pytest.mark.slow
def test_every_state_of_every_transaction(shardrel: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert strace()
    answer = shardrel("drill", "power-loss")
    with capsys.disabled():
        print("\n  power loss:", json.dumps(answer))
    assert answer["outcome"] == "PASSED"
    assert answer["judged"] == answer["states"] + answer["statesBehindRuns"] > 3000


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> list[Recorded]:
    assert strace()
    return record_story(tmp_path_factory.mktemp("story"))


def examined(scratch: Path, transaction: Recorded, every: int) -> set[str]:
    done: Examined = Campaign(scratch, every=every).examine(transaction, None)
    return {violation.invariant for violation in done.violations}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "below", "expected"),
    [
        ("checkpoint", Kind.FILE, "store/tmp", judge.TORN),
        ("checkpoint", Kind.FOLDER, "store/runs", judge.LOST),
        ("checkpoint", Kind.FOLDER, "store/runs", judge.RECOVERY),
        ("checkpoint-next", Kind.FOLDER, "store/runs", judge.CHECKPOINT),
        ("checkpoint", Kind.FOLDER, "store/objects", judge.LOST),
        ("admit", Kind.FOLDER, "store/gates", judge.WENT_BACK),
        ("run-start", Kind.FOLDER, "keys/operations", judge.OTHER_END),
        ("fence", Kind.FOLDER, "keys/operations", judge.UNFINISHED),
        ("init", Kind.FOLDER, "keys", judge.RECOVERY),
    ],
)
def test_each_kind_of_forgetfulness_violates_an_invariant(
    scratch: Path, story: list[Recorded], name: str, kind: Kind, below: str, expected: str
) -> None:
    [transaction] = [one for one in story if one.name == name]
    # Bytes that are not durable make thousands of states, of which a great many are torn; names few, with few violated.
    every = 5 if kind is Kind.FILE else 1
    assert expected in examined(scratch, leaving_out(transaction, kind, below), every)


@pytest.mark.slow
def test_what_was_recorded_is_the_transaction_itself(scratch: Path, story: list[Recorded]) -> None:
    """Nothing is violated where nothing is left out, also behind re-runs of killed processes."""
    [transaction] = [one for one in story if one.name == "run-start"]
    done = Campaign(scratch, every=4).examine(transaction, replayer(scratch, record))
    assert done.violations == {}
    assert done.reruns > 3


def test_who_is_not_done_in_time_is_gone_with_all_whom_he_started(tmp_path: Path) -> None:
    """Whom strace traces lives on where strace alone is killed."""
    child = tmp_path / "child"
    command = ["sh", "-c", f"sleep 300 & echo $! > {child}; cat; wait"]
    with pytest.raises(RunFailedError) as err:
        ended(command, "task", 1.0)
    assert err.value.code == ErrorCode.RUN_RANK_FAILED
    _gone(Path(f"/proc/{child.read_text().strip()}/stat"))


def _gone(state: Path) -> None:
    """Whoever is killed and is nobody's child is on its way for a moment."""
    until = clock.monotonic() + 30
    with suppress(OSError):  # there is no such process any more
        while state.read_text().rpartition(")")[2].split()[0] not in "XZ":
            assert clock.monotonic() < until
            clock.sleep(0.01)

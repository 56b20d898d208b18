"""The command around the drills: names, statuses, and a scratch store that leaves no trace."""

from pathlib import Path

import pytest

from shardrel.cli.drill_crash import DATA
from shardrel.cli.main import main
from shardrel.drills.catalogue import DRILLS
from shardrel.errors import ErrorCode
from tests.support.command import Command, shardrel_in


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return shardrel_in(tmp_path, monkeypatch, capsys)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_without_a_name_the_drills_are_listed(shardrel: Command, tmp_path: Path) -> None:
    listed = shardrel("drill")
    assert [drill["name"] for drill in listed["drills"]] == [drill.name for drill in DRILLS]
    assert [drill["name"] for drill in listed["byThemselves"]] == ["crash", "power-loss"]
    assert not list(tmp_path.iterdir())


def test_nothing_of_the_help_is_cut_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    assert main(["drill", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert str(DATA) in shown


def test_an_unknown_drill_is_a_wrong_call(shardrel: Command, tmp_path: Path) -> None:
    assert shardrel("drill", "no-such-drill", status=2)["error"]["code"] == ErrorCode.INPUT_INVALID
    assert not list(tmp_path.iterdir())


def test_a_drill_tells_what_was_expected_and_what_was_observed(shardrel: Command, tmp_path: Path) -> None:
    answer = shardrel("drill", "replaced-split")
    [drill] = answer["drills"]
    expected = {"name": "replaced-split", "expected": "member.split-conflict", "observed": "member.split-conflict"}
    assert expected.items() <= drill.items()
    assert drill["ok"] is True
    assert answer["scratch"] is None
    assert not list(tmp_path.iterdir())


def test_a_fault_that_gets_through_is_exit_status_1(shardrel: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardrel.drills.anchors.must_extend", lambda store, view, history, kept: None)
    [drill] = shardrel("drill", "gate-rollback", status=1)["drills"]
    assert (drill["observed"], drill["ok"]) == ("nothing", False)


def test_what_is_in_the_store_is_not_touched(shardrel: Command, tmp_path: Path) -> None:
    shardrel("init", "--store", "store")
    before = files(tmp_path)
    shardrel("drill", "lost-acknowledgement", "--store", "store")
    assert files(tmp_path) == before


def test_the_scratch_store_can_be_kept(shardrel: Command, tmp_path: Path) -> None:
    answer = shardrel("drill", "fast-forward", "--keep", "--store", "store")
    [scratch] = (tmp_path / "store").iterdir()
    assert answer["scratch"] == f"file://{scratch}"
    assert (scratch / "gates" / "fast-forward" / "state").is_file()

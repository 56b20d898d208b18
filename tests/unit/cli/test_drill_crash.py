"""The command around the crash drill: what is refused before anything is made, and the verdict on a bundle."""

from pathlib import Path

import pytest

from shardrel.errors import ErrorCode
from shardrel.trust.keys import generate
from tests.support.command import Command, shardrel_in
from tests.support.lab import a_drill, make_data


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return shardrel_in(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize(
    "line",
    [
        ["crash"],
        ["crash", "--barrier", "somewhere"],
        ["crash", "--barrier", "commit-after-put"],
        ["crash", "--barrier", "request-1-before"],
        ["crash", "--barrier", "commit-after-rename", "--store", "s3://bucket/prefix"],
        ["crash", "--barrier", "commit-after-rename", "--expected-revision", "0" * 40],
        ["crash", "--barrier", "commit-after-rename", "--repository", ".", "--expected-revision", "0" * 40],
        ["rollback", "--barrier", "commit-after-rename"],
    ],
)
def test_a_wrong_call_makes_nothing(shardrel: Command, tmp_path: Path, line: list[str]) -> None:
    assert shardrel("drill", *line, status=2)["error"]["code"] == ErrorCode.INPUT_INVALID
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_refused(shardrel: Command, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    error = shardrel("drill", "crash", "--barrier", "commit-after-rename", "--out", "out", status=2)["error"]
    assert error["code"] == ErrorCode.INPUT_INVALID
    assert not list((tmp_path / "out").iterdir())


def test_a_failed_drill_keeps_its_folder_and_is_not_gone_on_with(shardrel: Command, tmp_path: Path) -> None:
    line = ["drill", "crash", "--barrier", "commit-after-rename", "--out", "out", "--data", "nowhere"]
    assert shardrel(*line, status=2)["error"]["code"] == ErrorCode.INPUT_NO_SUCH_FILE
    assert (tmp_path / "out").is_dir()
    assert shardrel(*line, status=2)["error"]["code"] == ErrorCode.INPUT_INVALID


def test_a_bundle_of_other_data_by_another_program_and_key_fails_by_name(shardrel: Command, tmp_path: Path) -> None:
    data = tmp_path / "data"
    a_drill(tmp_path / "bundle", (data, make_data(data)), "commit-after-rename", generate("other"))
    shardrel("keys", "make", "lab")
    answer = shardrel("verify-bundle", "bundle", status=1)
    assert (answer["verdict"], answer["outcome"], answer["barrier"]) == ("FAILED", "exact", "commit-after-rename")
    assert {one["check"] for one in answer["failures"]} == {"signature", "retained", "package", "data"}


def test_what_is_no_bundle_fails_by_name(shardrel: Command, tmp_path: Path) -> None:
    shardrel("keys", "make", "lab")
    answer = shardrel("verify-bundle", "nothing", status=1)
    assert answer["failures"] == [{"check": "structure", "subject": "audit.json: storage.object-absent"}]

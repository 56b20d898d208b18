"""What a caller gets when something goes wrong: an exit status, one object or a few lines, never a traceback."""

import errno
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from shardrel.cli.border import guarded
from shardrel.cli.main import main
from shardrel.cli.output import write_error
from shardrel.errors import ErrorCode, InternalError, OutcomeUnknownError, RefusedError, ShardrelError, UnavailableError

ERRORS: list[tuple[ShardrelError, int]] = [
    (RefusedError(ErrorCode.GATE_NOT_APPROVED, "not approved", root="sha256:00"), 1),
    (UnavailableError(ErrorCode.STORE_UNAVAILABLE, "the store does not answer"), 3),
    (OutcomeUnknownError(ErrorCode.OUTCOME_SWAP, "run the same command again"), 4),
    (InternalError(ErrorCode.INTERNAL, "a bug"), 70),
]


def raising(error: BaseException) -> Callable[[], int]:
    def action() -> int:
        raise error

    return action


@pytest.mark.parametrize(("error", "status"), ERRORS)
def test_a_category_has_its_exit_status_and_its_code(
    error: ShardrelError, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(raising(error), as_json=True) == status
    answer = json.loads(capsys.readouterr().out)
    assert answer["error"]["code"] == error.code
    assert answer["error"]["context"] == error.context


def test_people_read_errors_on_stderr_and_nothing_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(raising(ERRORS[0][0]), as_json=False) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "gate.not-approved" in shown.err


def test_lists_are_read_by_people_too(capsys: pytest.CaptureFixture[str]) -> None:
    write_error("source.snapshot-mismatch", "wrong", {"records": ["a#1", "b#2"], "others": []}, as_json=False)
    assert capsys.readouterr().err == "shardrel: wrong\n  code: source.snapshot-mismatch\n  records: a#1, b#2\n"


def test_what_nobody_foresaw_is_a_bug_without_its_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SHARDREL_DEBUG", raising=False)
    assert guarded(raising(ZeroDivisionError("content of a sample")), as_json=True) == 70
    shown = capsys.readouterr()
    assert json.loads(shown.out)["error"]["code"] == "internal.bug"
    assert "content of a sample" not in shown.out + shown.err


def test_a_full_disk_is_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/somewhere")
    assert guarded(raising(full), as_json=True) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["context"]) == ("store.unavailable", {"file": "/somewhere"})


@pytest.mark.parametrize("number", [errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR])
def test_a_name_that_can_be_no_files_is_a_wrong_call(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(raising(OSError(number, "as the system says it", "name")), as_json=True) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["context"]) == ("input.no-such-file", {"file": "name"})


def test_too_little_memory_is_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(raising(MemoryError()), as_json=True) == 3
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "store.unavailable"


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SHARDREL_DEBUG", "1")
    assert guarded(raising(ZeroDivisionError("here")), as_json=True) == 70
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), typer.Abort()])
def test_an_interrupt_is_no_bug(stop: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(raising(stop), as_json=False) == 130
    assert "Traceback" not in capsys.readouterr().err
    assert guarded(raising(stop), as_json=True) == 130
    assert json.loads(capsys.readouterr().out)["error"]["code"] == ErrorCode.CALL_INTERRUPTED


@pytest.mark.parametrize("as_json", [True, False])
def test_an_interrupt_inside_of_a_verb_is_told(
    as_json: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Nobody writes into the pipe, so that the verb waits for what it reads until the signal comes.
    os.mkfifo(tmp_path / "pipe")
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    # And again: what is raised inside of a finalizer, say, is ignored, and the verb would wait for ever.
    signal.setitimer(signal.ITIMER_REAL, 0.5, 5)
    try:
        line = ["check-proof", str(tmp_path / "pipe"), "--root", "sha256:" + "0" * 64]
        assert main([*line, "--json"] if as_json else line) == 130
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    shown = capsys.readouterr()
    assert "call.interrupted" in (shown.out if as_json else shown.err)
    assert bool(shown.out) == as_json


@pytest.mark.parametrize(
    "line",
    [
        ["--json", "no-such-verb"],
        ["digest", "--json"],
        ["digest", "--json", "--no-such-option", "x"],
        ["digest", "--json", "--by", "nobody", "x"],
    ],
)
def test_a_wrong_call_ends_with_2_and_one_json_object(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "input.invalid"


def test_a_wrong_call_of_a_person_is_said_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digest"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("line", [("--json",), ("--json", "run"), ("run", "--json"), ("--json", "keys")])
def test_a_script_that_names_no_verb_gets_one_object(line: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "input.invalid"

"""Where the answer cannot go, or not as it is: another encoding, a full disk, a closed pipe, no stream at all."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from shardrel.cli.files import write_file
from shardrel.cli.output import write_error
from shardrel.data import pull
from shardrel.errors import InvalidInputError, UnavailableError

_COMMAND = [sys.executable, "-m", "shardrel.cli"]
_CHECKOUT = str(Path(__file__).parents[3])
_DIGEST = f"sha256:{'0' * 64}"


def run(
    line: list[str], folder: Path, redirect: str = "", encoding: str = "utf-8"
) -> subprocess.CompletedProcess[bytes]:
    """The real command behind a shell's redirection."""
    environment = {**os.environ, "PYTHONPATH": _CHECKOUT, "PYTHONIOENCODING": encoding}
    words = ["/bin/sh", "-c", f'"$@" {redirect}', "sh", *_COMMAND, *line]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, check=False)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_one_json_object_is_utf_8_whatever_the_streams_encoding(encoding: str, tmp_path: Path) -> None:
    done = run(["--json", "digest", "π😀.jsonl"], tmp_path, encoding=encoding)
    assert done.returncode == 2
    assert json.loads(done.stdout.decode())["error"]["context"] == {"path": "π😀.jsonl"}
    assert done.stderr == b""


def test_people_of_another_encoding_get_escapes(tmp_path: Path) -> None:
    done = run(["digest", "π.jsonl"], tmp_path, encoding="ascii")
    assert (done.returncode, rb"\u03c0.jsonl" in done.stderr) == (2, True)


@pytest.mark.parametrize("as_json", [True, False])
def test_an_answer_that_finds_no_room_is_status_3(as_json: bool, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    done = run(["digest", "a.jsonl", *(["--json"] if as_json else [])], tmp_path, ">/dev/full")
    assert done.returncode == 3
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("redirect", [">/dev/full", "2>/dev/full", ">/dev/full 2>/dev/full", ">&-", "2>&-"])
def test_a_refusal_keeps_its_status_where_nobody_can_read_it(redirect: str, tmp_path: Path) -> None:
    for form in ([], ["--json"]):
        done = run(["check-proof", "nowhere", "--root", _DIGEST, *form], tmp_path, redirect)
        assert done.returncode == 2
        assert b"Traceback" not in done.stderr


def test_a_pipe_that_was_closed_is_no_refusal(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*_COMMAND, "digest", "a.jsonl"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": _CHECKOUT},
            stdout=write,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (3, b"")


def test_control_characters_of_names_do_not_reach_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    write_error("input.invalid", "no \x1b[2Jfile\nof it", {"path": "a\x9b1m", "counts": [1, "\x07"]}, as_json=False)
    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert shown.splitlines()[1:] == ["of it", "  code: input.invalid", r"  path: a\x9b1m", r"  counts: 1, \x07"]


def test_a_file_that_finds_no_room_is_status_3_and_one_that_has_no_folder_is_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError):
        write_file(Path("/dev/full"), b"page" * 100_000)
    with pytest.raises(InvalidInputError):
        write_file(tmp_path / "nowhere" / "page.html", b"page")


def test_a_shard_that_finds_no_room_is_status_3(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        with pytest.raises(UnavailableError):
            pull._write(tmp_path / "shard.parquet", b"page" * 1024)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "shard.parquet").exists()

"""Values that were once taken for others, or told by the wrong status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shardrel.cli.files import Write, write_file, writing
from shardrel.errors import ErrorCode, InvalidInputError, UnavailableError, no_such_column
from tests.support.command import Command, shardrel_in
from tests.support.hostile_calls import make_odd_files


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    made = shardrel_in(tmp_path, monkeypatch, capsys)
    make_odd_files(tmp_path)
    Path("texts.jsonl").write_text("".join(json.dumps({"id": f"t{n}", "text": "one"}) + "\n" for n in range(9)))
    return made


@pytest.fixture
def root(shardrel: Command) -> str:
    shardrel("init")
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    return str(shardrel("publish", snapshot, "--source", "texts.jsonl", "--shards", "2")["root"])


@pytest.mark.parametrize(
    "line",
    [
        ("pull", "0" * 64, "--to", ""),
        ("snapshot", ""),
        ("snapshot", "texts.jsonl", "--id-column", ""),
        ("snapshot", "texts.jsonl", "--text-column", ""),
        ("admit", "0" * 64, "--alias", ""),
        ("status", "--store", ""),
        ("status", "--keys", ""),
        ("status", "--dataset", ""),
        ("approve", "0" * 64, "--key", ""),
        ("log", "--export", ""),
        ("gc", "--abandon", ""),
        ("keys", "make", ""),
    ],
)
def test_an_empty_value_is_a_wrong_call(shardrel: Command, line: tuple[str, ...]) -> None:
    shardrel("init")
    assert shardrel.code(*line, status=2) == "input.invalid"


def test_an_empty_folder_name_is_not_the_current_folder(shardrel: Command, root: str) -> None:
    before = set(Path().iterdir())
    assert shardrel.code("pull", root, "--to=", status=2) == "input.invalid"
    assert set(Path().iterdir()) == before


def test_what_policy_show_prints_is_taken_as_a_policy(shardrel: Command) -> None:
    shardrel("init")
    shown = shardrel("policy", "show")
    shown["policy"]["rollbackWindow"] = 9
    Path("policy.json").write_text(json.dumps(shown))
    changed = shardrel("policy", "set", "policy.json")
    assert changed["policy"]["rollbackWindow"] == 9
    Path("policy.json").write_text(json.dumps(changed))
    assert shardrel("init", "--policy", "policy.json", "--dataset", "other")["policyDigest"] == changed["policyDigest"]
    for wrong in ({**shown, "more": 1}, {"policy": None}, {"policyDigest": shown["policyDigest"]}):
        Path("policy.json").write_text(json.dumps(wrong))
        assert shardrel.code("policy", "set", "policy.json", status=2) == "input.policy"


def test_names_in_a_context_are_spelled_as_all_names_in_json(shardrel: Command) -> None:
    shardrel("init")
    Path("again.jsonl").write_text(Path("texts.jsonl").read_text())
    error = shardrel("snapshot", "texts.jsonl", "again.jsonl", "--id-column", "id", status=2)["error"]
    assert error["code"] == "input.duplicate-id"
    assert set(error["context"]) == {"path", "row", "otherPath", "otherRow"}
    Path("gone.jsonl").write_text('{"sequence": 1, "sampleId": "t1"}\n')
    shardrel("fence", "tombstones", "gone.jsonl")
    context = shardrel("snapshot", "texts.jsonl", "--id-column", "id", status=1)["error"]["context"]
    assert (context["tombstoneHits"], context["benchmarkHits"]) == (1, 0)


@pytest.mark.parametrize("option", ["--id-column", "--token-column", "--text-column"])
def test_a_column_that_is_not_there_comes_with_those_that_are(shardrel: Command, option: str) -> None:
    shardrel("init")
    error = shardrel("snapshot", "texts.jsonl", option, "ID", status=2)["error"]
    assert (error["code"], error["context"]["column"]) == ("input.no-such-column", "ID")
    assert error["context"]["columns"] == ["id", "text"]
    assert "id, text" in error["message"]


def test_a_column_that_is_to_be_packed_comes_with_those_that_are_there(shardrel: Command) -> None:
    shardrel("init")
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    error = shardrel("publish", snapshot, "--source", "texts.jsonl", "--packed", "Text", status=2)["error"]
    assert (error["code"], error["context"]["columns"]) == ("input.no-such-column", ["text"])


def test_of_very_many_columns_the_first_are_named() -> None:
    error = no_such_column("it", "x", [f"c{n}" for n in range(100)])
    assert error.message.endswith("c29 and 70 more")


@pytest.mark.parametrize("reason", ["Owner asked", "", "x" * 65, "ümlaut"])
def test_a_reason_that_is_no_code_is_told_in_words_in_a_line_too(shardrel: Command, reason: str) -> None:
    shardrel("init")
    Path("gone.jsonl").write_text(json.dumps({"sequence": 1, "sampleId": "t1", "reason": reason}) + "\n")
    error = shardrel("fence", "tombstones", "gone.jsonl", status=2)["error"]
    assert error["code"] == "input.fence-entry"
    assert "a reason is a code" in error["message"]
    assert "regex" not in error["message"]


def test_a_text_column_is_named_once(shardrel: Command) -> None:
    shardrel("init")
    line = ("snapshot", "texts.jsonl", "--id-column", "id", "--text-column", "text")
    assert shardrel.code(*line, "--text-column", "text", status=2) == "input.invalid"
    assert shardrel(*line)["records"] == 9


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "b", "a": "c"}',
        '[{"from": "a", "from": "b", "to": "c"}]',
        '{"a": "b"} x',
        '{"a": NaN}',
        '["a"]',
        '"a"',
        "\xff",
    ],
)
def test_renames_are_read_so_that_nobody_can_read_them_otherwise(shardrel: Command, root: str, text: str) -> None:
    Path("renames.json").write_bytes(text.encode("latin-1"))
    line = ("publish", root, "--source", "texts.jsonl", "--previous", root, "--renames", "renames.json")
    assert shardrel.code(*line, status=2) == "input.schema-rename"


def test_a_policy_with_a_key_twice_is_refused(shardrel: Command) -> None:
    shardrel("init")
    text = json.dumps(shardrel("policy", "show")["policy"])
    Path("policy.json").write_text(text[:-1] + ', "rollbackWindow": 9}')
    assert shardrel.code("policy", "set", "policy.json", status=2) == "input.policy"


@pytest.mark.parametrize("store", ["texts.jsonl", "texts.jsonl/below", "x" * 300, "loop/store", os.fsdecode(b"\xff")])
def test_a_store_that_can_be_no_folder_is_a_wrong_call(shardrel: Command, store: str) -> None:
    Path("loop").symlink_to("loop")
    for line in (("status",), ("init",), ("probe",)):
        assert shardrel.code(*line, "--store", store, status=2) == "input.invalid"


def test_a_link_to_nowhere_is_no_store(shardrel: Command) -> None:
    assert shardrel.code("init", "--store", "link-to-nowhere", status=2) == "input.invalid"


@pytest.mark.parametrize("keys", ["garbage", "garbage/below", "null-device"])
def test_a_folder_of_keys_that_is_none_is_a_wrong_call(shardrel: Command, keys: str) -> None:
    for line in (("init",), ("keys", "make", "one"), ("keys", "make-encryption", "one")):
        assert shardrel.code(*line, "--keys", keys, status=2) == "input.key"


@pytest.mark.parametrize("file", ["/proc/self/mem", "folder", "nowhere", "link-to-nowhere"])
def test_a_file_that_cannot_be_read_is_a_wrong_call(shardrel: Command, file: str) -> None:
    shardrel("init")
    for line in (
        ("check-proof", file, "--root", "0" * 64),
        ("log", "--against", file),
        ("affected", "--tombstones", file),
    ):
        assert shardrel.code(*line, status=2) == "input.no-such-file"
    assert shardrel.code("policy", "set", file, status=2) == "input.no-such-file"


def test_a_key_file_that_cannot_be_read_is_a_wrong_call(shardrel: Command, root: str) -> None:
    assert shardrel.code("approve", root, "--key", "/proc/self/mem", status=2) == "input.key"


@pytest.mark.parametrize("device", ["null-device", "full-device"])
def test_no_device_is_replaced_by_a_file(shardrel: Command, root: str, device: str) -> None:
    number = os.stat(device).st_rdev
    status = 0 if device == "null-device" else 3
    shardrel("report", root, "--html", device, status=status)
    shardrel("prove", "t1", "--root", root, "--out", device, status=status)
    shardrel("diff", root, root, "--list", device)
    assert shardrel.code("log", "--export", device, status=2) == "input.invalid"
    assert shardrel.code("policy", "set", "texts.jsonl", "--key", f"draft:{device}", status=2) == "input.policy"
    policy = shardrel("policy", "show")["policy"]
    policy["rollbackWindow"] += 1
    Path("policy.json").write_text(json.dumps(policy))
    assert shardrel.code("policy", "set", "policy.json", "--key", f"draft:{device}", status=1)
    assert os.stat(device).st_rdev == number


def test_a_file_appears_whole_or_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "asked.txt"
    write_file(path, b"before")

    def half(write: Write) -> None:
        write(b"half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), writing(path) as write:
        half(write)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"before", ["asked.txt"])


def test_what_goes_wrong_beside_the_file_is_not_told_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="elsewhere"), writing(tmp_path / "asked.txt"):
        raise OSError("elsewhere")
    assert os.listdir(tmp_path) == []


def test_a_link_leads_to_the_file_that_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    write_file(tmp_path / "link", b"data")
    assert ((tmp_path / "file").read_bytes(), (tmp_path / "link").is_symlink()) == (b"data", True)


def test_a_pipe_is_written_to_as_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_file(tmp_path / "pipe", b"data")
    assert os.read(reader, 10) == b"data"
    os.close(reader)


_ASKED = "from pathlib import Path; from shardrel.cli.files import write_file; write_file(Path({!r}), b'data')"


def test_stdout_as_a_file_is_what_stdout_goes_to(tmp_path: Path) -> None:
    """A pipe, which has no name of its own, and a file to which something was appended before."""
    call = [sys.executable, "-c", _ASKED.format("/dev/stdout")]
    assert subprocess.run(call, capture_output=True, check=True).stdout == b"data"
    (tmp_path / "log").write_bytes(b"before ")
    with (tmp_path / "log").open("ab") as log:
        subprocess.run(call, stdout=log, check=True)
    assert (tmp_path / "log").read_bytes() == b"before data"


def test_a_file_that_is_replaced_stays_as_private_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "asked.txt"
    path.touch(0o600)
    write_file(path, b"data")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"data", 0o600)


def test_a_folder_and_a_full_disk_have_codes(tmp_path: Path) -> None:
    make_odd_files(tmp_path)
    with pytest.raises(InvalidInputError) as wrong:
        write_file(tmp_path, b"data")
    with pytest.raises(UnavailableError) as full:
        write_file(tmp_path / "full-device", b"data")
    assert (wrong.value.code, full.value.code) == (ErrorCode.INPUT_INVALID, ErrorCode.STORE_UNAVAILABLE)

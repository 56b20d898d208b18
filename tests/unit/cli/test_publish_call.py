"""How people call ``publish``."""

import json
from pathlib import Path

import pytest

from shardrel.cli.publish import read_compression, read_size
from shardrel.errors import ErrorCode, InvalidInputError
from tests.support.command import Command, shardrel_in


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return shardrel_in(tmp_path, monkeypatch, capsys)


def test_sources_may_follow_each_other_as_a_shell_makes_of_a_glob(shardrel: Command) -> None:
    for name in ("a", "b", "c"):
        Path(f"{name}.jsonl").write_text(json.dumps({"id": name, "text": "one"}) + "\n")
    shardrel("init")
    snapshot = shardrel("snapshot", "a.jsonl", "b.jsonl", "c.jsonl", "--id-column", "id")["snapshot"]
    together = shardrel("publish", snapshot, "--source", "a.jsonl", "b.jsonl", "c.jsonl", "--shards", "1")
    apart = shardrel("publish", snapshot, "--source", "a.jsonl", "--source", "b.jsonl", "c.jsonl", "--shards", "1")
    assert together["root"] == apart["root"]
    assert together["records"] == 3


@pytest.mark.parametrize("text", ["999999999999999G", "8388608G", "0", "-1", "1.5M", "10TB", ""])
def test_a_size_that_no_record_can_hold_is_a_wrong_call(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_size(text)
    assert caught.value.code == ErrorCode.INPUT_INVALID


@pytest.mark.parametrize("text", ["brotli:11", "rar", "", "zstd:0", "zstd:23", "snappy:1", "none:0", "ZSTD"])
def test_a_codec_or_level_that_is_not_there_is_a_wrong_call(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_compression(text)
    assert caught.value.code == ErrorCode.INPUT_INVALID


def test_codecs_and_their_levels() -> None:
    read = {text: read_compression(text) for text in ("zstd", "zstd:22", "gzip", "snappy", "lz4", "none")}
    assert {text: (one.codec, one.level) for text, one in read.items()} == {
        "zstd": ("zstd", 3),
        "zstd:22": ("zstd", 22),
        "gzip": ("gzip", 6),
        "snappy": ("snappy", None),
        "lz4": ("lz4", None),
        "none": ("none", None),
    }


def test_columns_are_packed_by_name(shardrel: Command) -> None:
    records = [{"id": str(n), "v": [n, n + 1], "text": "one"} for n in range(5)]
    Path("a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    shardrel("init")
    snapshot = shardrel("snapshot", "a.jsonl", "--id-column", "id")["snapshot"]
    native = shardrel("publish", snapshot, "--source", "a.jsonl", "--shards", "1")
    packed = shardrel("publish", snapshot, "--source", "a.jsonl", "--shards", "1", "--packed", "v")
    assert packed["root"] != native["root"]
    assert shardrel("verify", packed["root"])["verdict"] == "PASSED"
    assert shardrel("diff", native["root"], packed["root"])["changed"] == 0
    for column, code in (("text", ErrorCode.INPUT_COLUMN_TYPE), ("w", ErrorCode.INPUT_NO_SUCH_COLUMN)):
        assert shardrel.code("publish", snapshot, "--source", "a.jsonl", "--packed", column, status=2) == code

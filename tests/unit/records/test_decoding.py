"""Records are decoded strictly: what is not exactly this kind, in exactly these bytes, is refused."""

from typing import Any

import msgspec
import pytest

from shardrel.canonical import json
from shardrel.errors import ErrorCode, FormatError
from shardrel.records.descriptor import MediaType
from shardrel.records.fence import BenchmarkEntry, HexDigest, TombstoneEntry
from shardrel.records.fields import DigestField, Name, ReasonCode
from shardrel.records.release import ShardId
from shardrel.records.run import RunRecord
from shardrel.records.schema import IntType, RecordSchema

ROOT = "sha256:" + "0" * 64
GRAMS = {"words": 3, "least": 1, "digests": ["0" * 64], "screens": "0" * 8}
GOOD = json.encode(RecordSchema(fields=()))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (GOOD.replace(b".v1", b".v2"), ErrorCode.FORMAT_UNKNOWN_SCHEMA),
        (GOOD.replace(b".v1", b".v2").replace(b"{", b'{"also":1,'), ErrorCode.FORMAT_UNKNOWN_SCHEMA),
        (b'{"schema":"training.shard.run.v1"}', ErrorCode.FORMAT_UNKNOWN_SCHEMA),
        (GOOD.replace(b"{", b'{"also":1,'), ErrorCode.FORMAT_NOT_A_RECORD),
        (b'{"fields":[]}', ErrorCode.FORMAT_NOT_CANONICAL),
        (b'{"schema":7}', ErrorCode.FORMAT_NOT_A_RECORD),
        (b"", ErrorCode.FORMAT_NOT_A_RECORD),
        (b"\xff", ErrorCode.FORMAT_NOT_A_RECORD),
        (b"[" * 100_000, ErrorCode.FORMAT_NOT_A_RECORD),
        (GOOD + b" ", ErrorCode.FORMAT_NOT_CANONICAL),
        (GOOD.replace(b"{", b'{"fields":[],'), ErrorCode.FORMAT_NOT_CANONICAL),
        (b" " * 200, ErrorCode.FORMAT_TOO_LARGE),
    ],
)
def test_what_is_not_this_record_is_refused_with_its_code(data: bytes, code: ErrorCode) -> None:
    with pytest.raises(FormatError) as caught:
        json.decode(data, RecordSchema, max_bytes=150 if data.isspace() else json.MAX_RECORD_BYTES)
    assert caught.value.code is code


def test_good_bytes_are_a_record_and_of_one_kind() -> None:
    assert json.encode(json.decode(GOOD, RecordSchema)) == GOOD
    with pytest.raises(FormatError) as caught:
        json.decode(GOOD, RunRecord)
    assert caught.value.code is ErrorCode.FORMAT_UNKNOWN_SCHEMA


@pytest.mark.parametrize("kind", [DigestField, HexDigest, MediaType, Name, ReasonCode, ShardId])
def test_a_last_newline_is_part_of_no_name(kind: Any) -> None:
    good = next(text for text in ("shard-00000-of-00001", "a/b", "0" * 64, ROOT) if _is(text, kind))
    assert not _is(good + "\n", kind)


@pytest.mark.parametrize(
    "selectors",
    [
        {},
        {"sampleId": "a", "sourceId": "b"},
        {"sampleId": "a", "contentDigest": ROOT},
        {"sourceVersion": "1"},
        {"sampleId": "a", "sourceVersion": "1"},
    ],
)
def test_a_tombstone_that_selects_in_no_way_or_in_two_is_refused(selectors: dict[str, str]) -> None:
    nothing = dict.fromkeys(("sampleId", "sourceId", "sourceVersion", "contentDigest", "reason"))
    assert _decoded({**nothing, "sourceId": "a", "sourceVersion": "1"}, TombstoneEntry)
    assert not _decoded({**nothing, **selectors}, TombstoneEntry)


@pytest.mark.parametrize(
    "selectors", [{}, {"contentDigest": ROOT, "textDigest": ROOT}, {"contentDigest": ROOT, "shingles": GRAMS}]
)
def test_a_benchmark_that_selects_in_no_way_or_in_two_is_refused(selectors: dict[str, Any]) -> None:
    nothing = {"benchmark": "exam", **dict.fromkeys(("contentDigest", "textDigest", "shingles"))}
    assert _decoded({**nothing, "textDigest": ROOT, "shingles": GRAMS}, BenchmarkEntry)
    assert not _decoded({**nothing, **selectors}, BenchmarkEntry)


def _decoded(fields: dict[str, Any], kind: Any) -> bool:
    try:
        json.decode(json.encode({"sequence": 1, **fields}), kind)
    except FormatError:
        return False
    return True


def _is(text: str, kind: Any) -> bool:
    try:
        return bool(msgspec.convert(text, kind) == text)
    except msgspec.ValidationError:
        return False


def test_a_part_of_a_record_has_no_schema_of_its_own() -> None:
    with pytest.raises(FormatError) as caught:
        json.decode(b'{"kind":"bool"}', IntType)
    assert caught.value.code is ErrorCode.FORMAT_NOT_A_RECORD

"""Canonical JSON: the vectors, agreement with the reference implementation, and what is refused."""

import json as plain_json
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.canonical import json
from shardrel.canonical.closed import is_closed
from shardrel.errors import ErrorCode, FormatError, InternalError
from shardrel.records.fields import Count, DigestField, Record

VECTORS = plain_json.loads((Path(__file__).parents[3] / "fixtures/canonical/json.json").read_text("utf-8"))
DIGEST = "sha256:" + "ab" * 32


class Sample(Record, frozen=True, kw_only=True):
    digest: DigestField
    records: Count


class Notes(Record, frozen=True, kw_only=True):
    notes: dict[str, str]


def by_name(vectors: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", vectors, ids=lambda vector: vector["name"])


@by_name(VECTORS["canonical"])
def test_canonical_bytes(vector: dict[str, Any]) -> None:
    assert json.encode(vector["value"]) == vector["text"].encode()
    assert rfc8785.dumps(vector["value"]) == vector["text"].encode()


@by_name(VECTORS["refused"])
def test_bytes_that_are_not_the_canonical_record_are_refused(vector: dict[str, Any]) -> None:
    text = vector["text"].replace("@", DIGEST)
    with pytest.raises(FormatError) as refused:
        json.decode(text.encode(), Sample)
    assert refused.value.code in (ErrorCode.FORMAT_NOT_A_RECORD, ErrorCode.FORMAT_NOT_CANONICAL)


def test_the_canonical_record_itself_is_accepted() -> None:
    record = Sample(digest=DIGEST, records=2**53 - 1)
    assert json.decode(json.encode(record), Sample) == record


def test_duplicates_and_other_spellings_are_named_apart_from_what_does_not_parse() -> None:
    spelled = f'{{"digest": "{DIGEST}","records":1}}'.encode()
    with pytest.raises(FormatError) as refused:
        json.decode(spelled, Sample)
    assert refused.value.code == ErrorCode.FORMAT_NOT_CANONICAL


@pytest.mark.parametrize("value", [1.0, float("nan"), 2**53, -(2**53)])
def test_values_without_canonical_bytes_are_a_bug(value: Any) -> None:
    with pytest.raises(InternalError):
        json.encode({"x": value})


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}])
def test_lone_surrogates_are_a_bug(value: Any) -> None:
    with pytest.raises(InternalError):
        json.encode(value)


@pytest.mark.parametrize("depth", [2_000, 100_000])
def test_deep_nesting_is_refused_and_not_a_crash(depth: int) -> None:
    data = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
    with pytest.raises(FormatError) as refused:
        json.decode(data, dict[str, Any])
    assert refused.value.code == ErrorCode.FORMAT_NOT_A_RECORD


def test_a_deep_value_has_no_bytes() -> None:
    value: Any = None
    for _ in range(2_000):
        value = [value]
    with pytest.raises(InternalError):
        json.encode(value)


def test_a_record_beyond_its_bound_is_not_parsed() -> None:
    with pytest.raises(FormatError) as refused:
        json.decode(b"[" * 100, Sample, max_bytes=99)
    assert refused.value.code == ErrorCode.FORMAT_TOO_LARGE


_keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | _keys,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(_values)
def test_agrees_with_the_reference_implementation(value: Any) -> None:
    assert json.encode(value) == rfc8785.dumps(value)


@settings(deadline=None)
@given(st.dictionaries(_keys, _keys, max_size=5))
def test_the_quick_way_back_accepts_exactly_the_canonical_bytes(notes: dict[str, str]) -> None:
    assert is_closed(Notes)
    data = rfc8785.dumps({"notes": notes})
    assert json.decode(data, Notes) == Notes(notes=notes)
    by_code_point = b"{" + msgspec.json.encode("notes") + b":" + msgspec.json.encode(notes, order="sorted") + b"}"
    if by_code_point != data:
        with pytest.raises(FormatError):
            json.decode(by_code_point, Notes)


class Wide(Record, frozen=True, kw_only=True):
    count: int


class Loose(Record, frozen=True, kw_only=True):
    share: float


class Unknown(Record, frozen=True, kw_only=True):
    what: Any


class Bounded(Record, frozen=True, kw_only=True):
    count: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
    inner: tuple["Bounded", ...]


@pytest.mark.parametrize(("kind", "closed"), [(Wide, False), (Loose, False), (Unknown, False), (Bounded, True)])
def test_only_kinds_without_floats_and_large_integers_go_the_quick_way(kind: Any, closed: bool) -> None:
    assert is_closed(kind) is closed


@pytest.mark.parametrize(("kind", "data"), [(Wide, b'{"count":9007199254740992}'), (Loose, b'{"share":0.5}')])
def test_open_kinds_refuse_what_canonical_json_has_not(kind: Any, data: bytes) -> None:
    with pytest.raises(FormatError):
        json.decode(data, kind)

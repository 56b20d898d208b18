"""Statements: whose they are about is decided by one digest."""

import json

import pytest

from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, FormatError, TrustError
from shardrel.trust.statement import read_statement, statement

ROOT = digest_of(b"root")
OTHER = digest_of(b"other")
KIND = "https://example.org/kind/v1"


def changed(**fields: object) -> bytes:
    """A statement about the root with some fields replaced."""
    return json.dumps(json.loads(statement(ROOT, KIND, {"a": 1}, "root")) | fields).encode()


def test_a_statement_gives_back_its_predicate() -> None:
    assert read_statement(statement(ROOT, KIND, {"a": 1}, "root"), ROOT, KIND) == (KIND, b'{"a":1}')
    assert read_statement(statement(ROOT, KIND, {"a": 1}, "root"), ROOT, None)[0] == KIND


def test_a_statement_about_another_digest_is_refused() -> None:
    with pytest.raises(TrustError) as caught:
        read_statement(statement(OTHER, KIND, {}, ROOT), ROOT, KIND)
    assert caught.value.code == ErrorCode.TRUST_SUBJECT


@pytest.mark.parametrize(
    "subject",
    [[], [{"digest": {"sha1": ROOT[7:]}}], [{"digest": {}, "name": ROOT}], [{"digest": {"sha256": ROOT[7:].upper()}}]],
    ids=["none", "weak-algorithm", "name-alone", "upper-case"],
)
def test_only_a_sha256_subject_matches(subject: object) -> None:
    with pytest.raises(TrustError) as caught:
        read_statement(changed(subject=subject), ROOT, KIND)
    assert caught.value.code == ErrorCode.TRUST_SUBJECT


def test_another_predicate_type_is_refused() -> None:
    with pytest.raises(TrustError) as caught:
        read_statement(changed(predicateType="https://example.org/other/v1"), ROOT, KIND)
    assert caught.value.code == ErrorCode.TRUST_PREDICATE


def test_unknown_fields_are_ignored_as_in_toto_asks() -> None:
    assert read_statement(changed(note="x"), ROOT, KIND)[0] == KIND


@pytest.mark.parametrize(
    "payload",
    [b"{}", b"[]", changed(_type="https://in-toto.io/Statement/v0.1"), b'{"a":1,"a":2}', b"\xff"],
    ids=["empty", "list", "other-version", "duplicate-key", "not-utf8"],
)
def test_what_is_not_a_statement_is_refused(payload: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        read_statement(payload, ROOT, KIND)
    assert caught.value.code == ErrorCode.FORMAT_NOT_A_RECORD

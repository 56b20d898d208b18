"""Digests, their written form and their domains."""

import hashlib

import pytest

from shardrel.digest import Domain, digest_of, domain_hash, lp, parse_digest, raw_digest, to_digest, u64
from shardrel.errors import ErrorCode, FormatError

GOOD = "sha256:" + "0f" * 32


def test_every_domain_is_its_name_padded_to_sixteen_bytes() -> None:
    for domain in Domain:
        assert domain.value == f"shardrel/{domain.name.lower()}".encode().ljust(16, b"\0")
        assert len(domain.value) == 16


def test_no_two_domains_are_equal() -> None:
    assert len({domain.value for domain in Domain}) == len(Domain)


def test_the_digest_of_an_object_is_plain_sha256() -> None:
    assert digest_of(b"abc") == "sha256:" + hashlib.sha256(b"abc").hexdigest()


def test_a_domain_hash_begins_with_the_domain() -> None:
    expected = hashlib.sha256(b"shardrel/node\0\0\0" + b"left" + b"right").digest()
    assert domain_hash(Domain.NODE, b"left", b"right") == expected


def test_integers_and_lengths_are_eight_bytes_little_endian() -> None:
    assert u64(1) == b"\x01" + bytes(7)
    assert lp(b"ab") == b"\x02" + bytes(7) + b"ab"


def test_length_prefixes_keep_a_moved_boundary_apart() -> None:
    assert lp(b"ab") + lp(b"c") != lp(b"a") + lp(b"bc")


def test_the_written_form_goes_there_and_back() -> None:
    assert to_digest(raw_digest(GOOD)) == GOOD


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOOD[7:],
        "sha256:" + "0F" * 32,
        "sha256:" + "0f" * 31,
        "sha256:" + "0f" * 33,
        "md5:" + "0f" * 16,
        "SHA256:" + "0f" * 32,
        " " + GOOD,
        GOOD + "\n",
        "sha256:" + "０f" * 32,
    ],
)
def test_nothing_else_is_a_digest(text: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_digest(text)
    assert refused.value.code == ErrorCode.FORMAT_NOT_A_RECORD


def test_a_raw_digest_has_thirty_two_bytes() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        to_digest(bytes(31))

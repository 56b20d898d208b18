"""Normalised text: what is one text, and what is another."""

import hashlib
import struct

import pytest

from shardrel.canonical.text import normalise, shingles, text_digest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("  Hello,\tWORLD! ", "hello world"),
        ("Straße", "strasse"),
        ("ﬁne", "fine"),
        ("e\u0301te\u0301", "été"),
        ("x² ½", "x2 1 2"),
        ("snake_case don't", "snake case don t"),
        ("漢字。かな", "漢字 かな"),
        ("a\u200bb\u00a0c\u2028d", "a b c d"),
        ("\u1e9e", "ss"),
        ("Ⅷ ①", "viii 1"),
        ("नि", "नि"),
        ("…!?", ""),
        ("", ""),
    ],
)
def test_normalised_text(text: str, words: str) -> None:
    assert normalise(text) == words


def test_normalising_again_changes_nothing() -> None:
    text = "".join(map(chr, [*range(0x20, 0xD800, 7), *range(0xE000, 0x30000, 11)]))
    assert normalise(normalise(text)) == normalise(text)


def test_the_digest_is_of_the_normalised_text_alone() -> None:
    expected = hashlib.sha256(b"shardrel/text\0\0\0" + b"a b").digest()
    assert text_digest("A,  b!") == expected == text_digest("a b")
    assert text_digest("ab") != expected


def test_a_text_without_words_has_no_digest() -> None:
    assert text_digest(" - ") is None
    assert shingles(" - ", 1) == []


def test_shingles_are_every_run_of_n_words() -> None:
    prefix = b"shardrel/ngram\0\0" + struct.pack("<Q", 2)
    expected = [hashlib.sha256(prefix + words).digest() for words in (b"a b", b"b c")]
    assert shingles("A b. C", 2) == expected
    assert shingles("a b c", 4) == []
    assert len(shingles("w " * 14)) == 2

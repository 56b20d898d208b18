"""Normalised text: what is one text, and what is another."""

import hashlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.canonical.text import Shingle, normal_bytes, normalise, shingles, text_digest


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
    assert normal_bytes(text) == words.encode()


@settings(deadline=None, max_examples=200)
@given(text=st.text())
def test_the_quick_way_is_the_same(text: str) -> None:
    assert normal_bytes(text).decode() == normalise(text)


def test_a_stroke_through_a_sign_is_no_word_of_its_own() -> None:
    assert normal_bytes("a =\u0338 b e\u0301") == "a b \u00e9".encode()


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
    assert [one.digest for one in shingles("A b. C", 2)] == expected
    assert shingles("a b c", 4) == []
    assert len(shingles("w " * 14)) == 2


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13])
def test_screens_are_what_the_spec_says(n: int) -> None:
    text = "a seventeen-letters: antidisestablishmentarianism, eightlet exactlysixteenby Ä é 漢字 " + "b c d e f g h"
    words = normalise(text).encode().split()
    assert len(words) > 13
    expected = [screen_by_the_letter(words[first : first + n]) for first in range(len(words) - n + 1)]
    assert [one.screen for one in shingles(text, n)] == expected
    assert isinstance(shingles(text, n)[0], Shingle)


def screen_by_the_letter(words: list[bytes]) -> int:
    every, k, c = (1 << 64) - 1, 0x9E3779B97F4A7C15, 0xD1342543DE82EF95
    total = 0
    for word in words:
        x = int.from_bytes(word[:8], "little") * k & every
        x ^= x >> 32
        x = (x + int.from_bytes(word[8:16], "little")) * k & every
        x ^= x >> 29
        total = (total * c + (x + len(word)) * k) & every
    return ((total ^ total >> 32) * k & every) >> 32

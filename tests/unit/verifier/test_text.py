"""The verifier's normalised text against the publisher's, and matching."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.canonical import text as publisher_text
from verifier.text import matching_rows, normalised, text_digest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        (" ,;-! ", ""),
        ("Hello,  World!", "hello world"),
        ("Straße", "strasse"),
        ("ﬁne ① ½", "fine 1 1 2"),
        ("e\u0301t\u00e9", "\u00e9t\u00e9"),
        ("don't", "don t"),
        ("नमस्ते दुनिया", "नमस्ते दुनिया"),
        ("a\u00a0b\u3000c\td", "a b c d"),
        ("\u0130", "i\u0307"),
    ],
)
def test_words(text: str, words: str) -> None:
    assert normalised(text) == words


@settings(deadline=None, max_examples=200)
@given(text=st.text())
def test_it_agrees_with_the_publisher(text: str) -> None:
    assert normalised(text) == publisher_text.normalise(text)
    assert text_digest(text) == publisher_text.text_digest(text)
    assert normalised(normalised(text)) == normalised(text)


def test_rows_match_by_meaning_and_nulls_never_do() -> None:
    wanted = text_digest("one two")
    assert wanted is not None
    values = pa.array(["One, two!", None, "", "one two three", "ONE   TWO"])
    assert matching_rows(values, frozenset([wanted])).tolist() == [True, False, False, False, True]

"""The verifier's normalised text against the publisher's, and matching."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.canonical import text as publisher_text
from verifier import words
from verifier.boundaries import begins_anew
from verifier.text import normalised, spaced, text_digest
from verifier.text_digests import TextDigests
from verifier.words import normal_blocks


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


AWKWARD = st.text(alphabet="aB1 .=<\n\u0301\u0338\u0327éßﬁÅK漢\u1100\u1161\u11a8ſİŉ\u0345²“\u200d🙂\ufdfaǰ\u0344")


@settings(deadline=None, max_examples=300)
@given(texts=st.lists(st.none() | AWKWARD | st.text(), min_size=1, max_size=5), block=st.integers(1, 40))
def test_a_whole_column_is_normalised_as_its_texts_are_wherever_it_is_cut(texts: list[str | None], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "_BLOCK", block)
        patch.setattr(words, "_NEAR", 1 + block // 8)
        rows = normal_rows(pa.array(texts, pa.string()))
    assert rows == b"\xff".join(normalised(text or "").encode() for text in texts)


def test_a_text_without_any_ascii_is_folded_in_bounded_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_BLOCK", 64)
    text = "漢字仮名交じり文。\ufdfa각각\u1112\u1161\u11ab́é\u0301ज्ञ\u09c7\u09be" * 50
    blocks = [block.tobytes() for block in normal_blocks(pa.array([text, None, text]))]
    assert b"".join(blocks) == b"\xff".join([normalised(text).encode(), b"", normalised(text).encode()])
    assert max(map(len, blocks)) < 1000


def test_what_begins_anew_folds_alone() -> None:
    anew = [chr(code) for code in range(0x80, 0x30000) if not 0xD800 <= code < 0xE000 and begins_anew(chr(code))]
    assert {"漢", "가", "é", "ß", "。", "\ufdfa"} <= set(anew)
    assert not {"\u0301", "\u1161", "\u11a8", "\u09be", "\u0345", "\uff9e"} & set(anew)
    for before in ("e", "\u1100", "\uac00", "\u09c7", "=", "\u0b47", "か"):
        folded = normalised(before)
        text = "".join(before + character for character in anew[::37])
        assert spaced(text) == "".join(spaced(before) + spaced(character) for character in anew[::37]), folded


@pytest.mark.parametrize("block", [1, 5, 9, 13, 1 << 20])
def test_text_digests_of_a_column(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_BLOCK", block)
    texts = [None, "One, two!", None, "", " ?! ", "one two three of a longer text", "漢 é", "x " * 9, " ", "last"]
    column = TextDigests(len(texts))
    for one in normal_blocks(pa.array(texts)):
        column.add(one)
    digests, known = column.finish()
    own = [text_digest(text or "") for text in texts]
    assert known.tolist() == [digest is not None for digest in own]
    assert [digests[row].tobytes() for row in range(len(texts)) if known[row]] == [one for one in own if one]


def test_a_column_of_no_texts_has_no_digests() -> None:
    digests, known = TextDigests(0).finish()
    assert (digests.shape, known.tolist()) == ((0, 32), [])


def normal_rows(values: pa.Array) -> bytes:
    return b"".join(block.tobytes() for block in normal_blocks(values))


def test_what_is_hidden_under_a_null_is_no_text() -> None:
    texts = pa.array(["secret words", "b"])
    hidden = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x02"), *texts.buffers()[1:]])
    assert normal_rows(hidden) == b"\xffb"


def test_a_column_without_rows_has_no_words() -> None:
    assert normal_rows(pa.array([], pa.string())) == b""

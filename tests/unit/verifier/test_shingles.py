"""Shingles in the verifier: planted copies, awkward texts, and screens that lie."""

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from shardrel.records.fence import BenchmarkEntry, Shingles
from tests.support.benchmark_texts import named_texts, text_entry
from verifier import fences, words
from verifier.digests import DigestSet
from verifier.shingles import wanted
from verifier.text import normalised
from verifier.words import BORDER, Overlap, normal_blocks, words_of

QUESTION = (
    "A train leaves the station at noon and travels north at eighty kilometres an hour; "
    "how far has it come when the second train overtakes it?"
)
FILLER = "Nothing in these words was ever asked of anybody who sat for an examination. " * 40


def hits(entries: list[BenchmarkEntry], column: pa.Array) -> list[bool]:
    found = fences.text_hits(fences.benchmarks(entries, max(entry.sequence for entry in entries)), [column])
    assert found is not None
    return list(found)


COPIES = {
    "alone": QUESTION,
    "at the beginning": QUESTION + " " + FILLER,
    "at the end": FILLER + QUESTION,
    "in the middle": FILLER + QUESTION + FILLER,
    "in capitals": FILLER + QUESTION.upper() + FILLER,
    "with other punctuation": FILLER + QUESTION.replace(" ", " – ").replace(";", "!?") + FILLER,
    "over many lines": FILLER + QUESTION.replace(" ", "\r\n\t") + FILLER,
    "in full width": FILLER + "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in QUESTION) + FILLER,
}


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("block", [64, 1000, 1 << 22])
def test_a_planted_copy_is_found_wherever_it_stands(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_BLOCK", block)
    column = pa.array([FILLER, None, COPIES[name], "", FILLER.upper()])
    assert hits([text_entry(1, QUESTION)], column) == [False, False, True, False, False]


def test_words_of_two_records_are_no_shingle() -> None:
    halves = QUESTION[:60], QUESTION[60:]
    entry = text_entry(1, QUESTION, words=13, least=10)
    assert hits([entry], pa.array(list(halves))) == [False, False]
    assert hits([entry], pa.array(["".join(halves)])) == [True]


def test_twelve_words_in_a_row_are_not_enough() -> None:
    chosen = QUESTION.split()
    assert hits([text_entry(1, QUESTION)], pa.array([" ".join(chosen[4:16]), " ".join(chosen[4:17])])) == [False, True]


def test_a_word_repeated_a_million_times_counts_once() -> None:
    column = pa.array(["word " * 1_000_000])
    often, once = text_entry(1, "word " * 20), text_entry(2, "word " * 13 + "end one two three", least=2)
    assert often.shingles is not None
    assert len(often.shingles.digests) == 1
    assert hits([often], column) == [True]
    assert hits([once], column) == [False]


def test_one_word_of_a_million_letters_is_one_word() -> None:
    column = pa.array(["w" * 1_000_000, "w" * 1_000_000 + " " + QUESTION, "é" * 500_000])
    assert hits([text_entry(1, QUESTION)], column) == [False, True, False]


@pytest.mark.parametrize(
    "text",
    [
        "e\u0301 " * 13,
        "\u0301" * 20 + " a b c d e f g h i j k l m",
        "a =\u0338 b <\u0338 c d e f g h i j k l m n",
        "Это русский текст, который никто не должен знать до экзамена по истории двадцатого века",
        "一 二 三 四 五 六 七 八 九 十 百 千 万 億",
        "\u1112\u1161\u11ab \u1100\u1173\u11af " * 7,
        "İstanbul ŉ ǰ ß ﬃ Ⅷ ½ ﷺ Å K ſ ⓐ ９ x²",
    ],
)
def test_every_script_is_folded_as_the_spec_says(text: str) -> None:
    entries = [text_entry(1, text)]
    texts = [text, text.upper(), text.lower(), "x" + text, text + "\u0301", text[:-1], f"({text})"]
    assert hits(entries, pa.array(texts)) == named_texts(entries, texts)


def test_a_screen_alone_names_nothing() -> None:
    entry = text_entry(1, QUESTION)
    assert entry.shingles is not None
    other = text_entry(1, " ".join(f"{word}x" for word in normalised(QUESTION).split()))
    assert other.shingles is not None
    # Screens of the text, digests of another one of as many words: every screen is found, and no digest.
    liar = replace(entry, shingles=replace(other.shingles, screens=entry.shingles.screens))
    assert len(entry.shingles.digests) == len(other.shingles.digests)
    assert hits([liar], pa.array([f"{QUESTION} {FILLER}"])) == [False]


def test_a_shingle_of_very_many_entries_counts_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verifier.shingles._GROUP", 3)
    shared = "all of them begin with these same"
    entries = [text_entry(n, f"{shared} words number{n} ends it", words=6, least=5) for n in range(1, 9)]
    texts = [f"{shared} words number{n} ends it" if n % 2 else f"{shared} words" for n in range(1, 12)]
    assert hits(entries, pa.array(texts)) == named_texts(entries, texts)
    assert sum(named_texts(entries, texts)) == 4


@pytest.mark.parametrize("block", [1, 8, 40, 1 << 20])
@pytest.mark.parametrize("overlap", [0, 1, 2, 5])
def test_every_window_is_whole_in_one_piece_and_in_no_other(
    block: int, overlap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "_BLOCK", block)
    texts = ["aa bb cc dd ee", "", "f", "g" * 30 + " gg", "", "", "h i j k l m n", "o p"]
    pieces, found = Overlap(overlap), []
    for one in normal_blocks(pa.array(texts)):
        row, piece = pieces.add(one)
        starts, lengths = words_of(piece)
        for first in range(len(starts) - overlap):
            window = piece[starts[first] : (starts + lengths)[first + overlap]].tobytes()
            if bytes([BORDER]) not in window:
                found.append((row + int((piece[: starts[first]] == BORDER).sum()), window.decode()))
    expected = [
        (row, " ".join(text.split()[first : first + overlap + 1]))
        for row, text in enumerate(texts)
        for first in range(len(text.split()) - overlap)
    ]
    assert found == expected


def test_digests_that_begin_alike_are_told_apart() -> None:
    first, second, third = ("ab" * 8 + end * 48 for end in "012")
    sets = [DigestSet.of(bytes.fromhex(one) for one in some) for some in ([first, third], [third, second, first])]
    asked = np.frombuffer(bytes.fromhex(first + second + third + "ab" * 7 + "ac" + "0" * 48), np.uint8).reshape(-1, 32)
    assert sets[0].numbers(asked).tolist() == [0, -1, 1, -1]
    assert sets[1].numbers(asked).tolist() == [0, 1, 2, -1]
    assert (sets[0] | DigestSet.of([bytes.fromhex(second)])).holds(asked).tolist() == [True, True, True, False]
    grams = [
        Shingles(words=3, least=1, digests=(one, other), screens="00000000" * 2)
        for one, other in ((second, third), (first, second))
    ]
    [found] = wanted(grams)
    assert found.digests.numbers(asked).tolist() == [0, 1, 2, -1]
    assert found.screens.tolist() == [0]

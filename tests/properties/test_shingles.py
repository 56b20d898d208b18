"""Overlap with benchmark texts: publisher and verifier name exactly what the SPEC does, however texts are laid out."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher import screening
from publisher.screening import named_by_text
from shardrel.canonical.text import normalise, shingles
from shardrel.canonical.text import text_digest as digest_of_text
from shardrel.gate.fences import selectors
from shardrel.records.fence import BenchmarkEntry
from tests.support.benchmark_texts import named_texts, text_entry
from verifier import fences, words

# Few words, so that texts share shingles often, and in all forms that normalisation makes one.
WORDS = st.sampled_from(["a", "A", "b", "é", "e\u0301", "ﬁ", "fi", "antidisestablishment", "antidisestablishmenx"])
GAPS = st.sampled_from([" ", ", ", "\n\n", "\u00a0", " — ", " =\u0338 "])
TEXTS = st.lists(st.tuples(WORDS, GAPS), max_size=14).map(lambda pairs: "".join(w + g for w, g in pairs))


@st.composite
def logs(draw: st.DrawFn) -> list[BenchmarkEntry]:
    """Entries of one to four benchmark texts, with and without shingles, of different widths."""
    entries: list[BenchmarkEntry] = []
    for text in draw(st.lists(TEXTS.filter(normalise), min_size=1, max_size=4)):
        width = draw(st.integers(3, 5))
        most = len({one.digest for one in shingles(text, width)})
        least = draw(st.integers(1, most)) if most else None
        entries.append(text_entry(len(entries) + 1, text, words=width, least=least))
    return entries


@settings(deadline=None, max_examples=250)
@given(
    entries=logs(),
    texts=st.lists(st.none() | TEXTS, min_size=1, max_size=6),
    block=st.sampled_from([1, 7, 30, 1 << 20]),
)
def test_both_programs_name_what_the_spec_does(
    entries: list[BenchmarkEntry], texts: list[str | None], block: int
) -> None:
    expected = named_texts(entries, texts)
    chosen = selectors(entries)
    column = pa.array(texts, pa.string())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(screening, "_BLOCK", block)
        patch.setattr(words, "_BLOCK", block)
        assert named_by_text(texts, chosen.text_digests, chosen.shingles).tolist() == expected
        for form in (column, column.dictionary_encode(), pa.array(["x", *texts], pa.string()).slice(1)):
            hits = fences.text_hits(fences.benchmarks(entries, len(entries)), [form])
            assert hits is not None
            assert hits.tolist() == expected


@settings(deadline=None, max_examples=100)
@given(before=TEXTS, inner=TEXTS.filter(lambda text: len(normalise(text).split()) >= 4), after=TEXTS)
def test_a_copy_inside_of_another_text_is_always_named(before: str, inner: str, after: str) -> None:
    entry = text_entry(1, inner, words=4)
    hits = fences.text_hits(fences.benchmarks([entry], 1), [pa.array([f"{before} {inner.upper()} {after}"])])
    assert hits is not None
    assert hits.tolist() == [True]


def test_an_equal_text_is_named_however_many_shingles_are_asked_for() -> None:
    text = "one two three four five six seven"
    entry = text_entry(1, text, words=3, least=5)
    assert named_texts([entry], [text.upper()]) == [True]
    assert digest_of_text(text) == digest_of_text(text.upper())

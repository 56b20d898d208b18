"""Copies of real text in real text: every one is found, and nothing else is. Both texts come with Python."""

import email
import random
import re
from pathlib import Path
from pydoc_data.topics import topics

import pyarrow as pa
import pytest

from publisher.screening import named_by_text
from shardrel.gate.fences import selectors
from tests.support.benchmark_texts import named_texts, text_entry
from verifier import fences

CHANGES = {
    "as they are": lambda text: text,
    "capitals": str.upper,
    "white space": lambda text: re.sub(r"\s+", "\n \t", text),
    "punctuation": lambda text: re.sub(r"[^\w\s]|_", " – ", text),
}
# What nobody else wrote: beginnings of the language reference's sections.
QUESTIONS = [" ".join(text.split()[20:90]) for _, text in sorted(topics.items()) if len(text.split()) > 120][:40]
CORPUS = [path.read_text(encoding="utf-8") for path in sorted(Path(email.__file__).parent.glob("*.py"))] * 3


@pytest.mark.parametrize("change", CHANGES)
def test_every_planted_copy_is_found_and_nothing_else(change: str) -> None:
    entries = [text_entry(number, question) for number, question in enumerate(QUESTIONS, start=1)]
    draw = random.Random(change)
    places = set(draw.sample(range(len(CORPUS)), len(QUESTIONS)))
    records = list(CORPUS)
    for place, question in zip(sorted(places), QUESTIONS, strict=True):
        at = draw.choice([0, len(records[place]), draw.randrange(len(records[place]))])
        records[place] = f"{records[place][:at]} {CHANGES[change](question)} {records[place][at:]}"
    found = fences.text_hits(fences.benchmarks(entries, len(entries)), [pa.array(records)])
    assert found is not None
    assert {row for row, hit in enumerate(found) if hit} == places
    chosen = selectors(entries)
    assert named_by_text(records, chosen.text_digests, chosen.shingles).tolist() == found.tolist()


def test_the_corpus_alone_shares_nothing() -> None:
    entries = [text_entry(number, question) for number, question in enumerate(QUESTIONS, start=1)]
    assert not any(named_texts(entries[:5], CORPUS[:5]))
    assert len(CORPUS) > len(QUESTIONS) == 40

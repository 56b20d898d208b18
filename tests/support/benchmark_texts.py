"""Entries of a benchmark log from texts, and what they name, worked out one text at a time."""

from collections.abc import Sequence

from shardrel.canonical.text import shingles, text_digest
from shardrel.digest import to_digest
from shardrel.gate.fence_files import text_selectors
from shardrel.records.fence import BenchmarkEntry


def text_entry(sequence: int, text: str, *, words: int | None = None, least: int | None = None) -> BenchmarkEntry:
    """An entry as ``fence benchmarks`` makes it of a line with a text."""
    digest, grams = text_selectors(text, words, least)
    return BenchmarkEntry(sequence=sequence, benchmark="exam", content_digest=None, text_digest=digest, shingles=grams)


def names(entry: BenchmarkEntry, text: str | None) -> bool:
    """Whether an entry names a record for this text, by the letter of the SPEC."""
    if text is None or (whole := text_digest(text)) is None:
        return False
    if to_digest(whole) == entry.text_digest:
        return True
    if entry.shingles is None:
        return False
    own = {one.digest.hex() for one in shingles(text, entry.shingles.words)}
    return len(own & set(entry.shingles.digests)) >= entry.shingles.least


def named_texts(entries: Sequence[BenchmarkEntry], texts: Sequence[str | None]) -> list[bool]:
    """Whether any of the entries names each text."""
    return [any(names(entry, text) for entry in entries) for text in texts]

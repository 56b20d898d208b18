"""Normalised text and its digests, for screening against benchmarks. Source: schemas/SPEC.md#text-normalisation"""

import hashlib
import unicodedata
from typing import Any

from shardrel.digest import Domain, domain_hash, u64

SHINGLE_WORDS = 13


class _Separators(dict[int, Any]):
    """Characters that stand in no word become a space; each is looked up once."""

    def __missing__(self, point: int) -> int:
        in_word = unicodedata.category(chr(point))[0] in "LMN"
        self[point] = point if in_word else 0x20
        return int(self[point])


_SEPARATORS = _Separators()


def normalise(text: str) -> str:
    """NFKC, full case folding, NFKC; then the runs of letters, marks and numbers, joined by one space."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.translate(_SEPARATORS).split())


def text_digest(text: str) -> bytes | None:
    """32 bytes that name the text however it is spaced, cased or punctuated; None for a text without words."""
    words = normalise(text)
    return domain_hash(Domain.TEXT, words.encode()) if words else None


def shingles(text: str, n: int = SHINGLE_WORDS) -> list[bytes]:
    """Digests of every ``n`` consecutive words, in order, repeats included; none for a shorter text."""
    words = normalise(text).encode().split()
    start = hashlib.sha256(Domain.NGRAM.value + u64(n))
    found: list[bytes] = []
    for first in range(len(words) - n + 1):
        state = start.copy()
        state.update(b" ".join(words[first : first + n]))
        found.append(state.digest())
    return found

"""Normalised text and its digests, for screening against benchmarks. Source: schemas/SPEC.md#text-normalisation"""

import hashlib
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from shardrel.canonical.screens import screens, word_keys
from shardrel.digest import Domain, domain_hash, u64

SHINGLE_WORDS = 13
# Words come again and again; what is longer is no word that would.
_SHORT = 32


class _Separators(dict[int, Any]):
    """Characters that stand in no word become a space; each is looked up once."""

    def __missing__(self, point: int) -> int:
        in_word = unicodedata.category(chr(point))[0] in "LMN"
        self[point] = point if in_word else 0x20
        return int(self[point])


_SEPARATORS = _Separators()
_ASCII = bytes(ord(chr(c).lower()) if chr(c).isalnum() else 0x20 for c in range(128)) + bytes(128)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shingle:
    """Full digest of one shingle, and its screen."""

    digest: bytes
    screen: int


def normalise(text: str) -> str:
    """NFKC, full case folding, NFKC; then the runs of letters, marks and numbers, joined by one space."""
    return " ".join(_spaced(text).split())


def normal_bytes(text: str) -> bytes:
    """UTF-8 of the normalised text; the same, quickly where most of it is ASCII or comes again."""
    if text.isascii():
        return b" ".join(text.encode().translate(_ASCII).split())
    # Nothing composes with a space or across one, so what stands between spaces can be folded by itself.
    return " ".join([folded for piece in text.split(" ") if (folded := _folded(piece))]).encode()


def text_digest(text: str) -> bytes | None:
    """32 bytes that name the text however it is spaced, cased or punctuated; None for a text without words."""
    words = normalise(text)
    return domain_hash(Domain.TEXT, words.encode()) if words else None


def shingles(text: str, n: int = SHINGLE_WORDS) -> list[Shingle]:
    """Every run of ``n`` consecutive words, in order, repeats included; none for a shorter text."""
    data = normalise(text).encode()
    lengths = np.array([len(word) for word in data.split()], np.int64)
    starts = np.cumsum(lengths + 1) - lengths - 1
    state = hashlib.sha256(Domain.NGRAM.value + u64(n))
    found: list[Shingle] = []
    for first, screen in enumerate(screens(word_keys(data, starts, lengths), n).tolist()):
        last = first + n - 1
        one = state.copy()
        one.update(data[starts[first] : starts[last] + lengths[last]])
        found.append(Shingle(digest=one.digest(), screen=screen))
    return found


def _spaced(text: str) -> str:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return folded.translate(_SEPARATORS)


def _folded(piece: str) -> str:
    if piece.isascii():
        return " ".join(piece.encode().translate(_ASCII).decode().split())
    return _known(piece) if len(piece) <= _SHORT else normalise(piece)


@lru_cache(maxsize=1 << 16)
def _known(piece: str) -> str:
    return normalise(piece)

"""Normalised text and its digest, written from the SPEC. Source: schemas/SPEC.md#text-normalisation"""

import unicodedata

from shardrel.digest import Domain, domain_hash

_WORD_CATEGORIES = frozenset("LMN")


class _WordsOnly(dict[int, int]):
    """``str.translate`` table that maps what is no part of a word to a space; learns code points as they come."""

    def __missing__(self, code: int) -> int:
        self[code] = code if unicodedata.category(chr(code))[0] in _WORD_CATEGORIES else 32
        return self[code]


_WORDS = _WordsOnly()


def spaced(text: str) -> str:
    """Folded characters of the text, a space in place of each that is part of no word."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return folded.translate(_WORDS)


def normalised(text: str) -> str:
    """Words of the text, folded, joined by one space."""
    return " ".join(word for word in spaced(text).split(" ") if word)


def text_digest(text: str) -> bytes | None:
    """Digest of the normalised text, None for a text without words."""
    words = normalised(text)
    return domain_hash(Domain.TEXT, words.encode()) if words else None

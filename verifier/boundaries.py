"""Where a text may be cut so that its parts fold as the whole does. Source: schemas/SPEC.md#text-normalisation"""

import sys
import unicodedata
from functools import cache

_VOWELS, _FINALS = range(0x1161, 0x1176), range(0x11A8, 0x11C3)
_CONTINUES = 0x80, 0xC0


def last_boundary(raw: bytes) -> int | None:
    """The last place in a piece of UTF-8, not its beginning, before which a character stands that composes with nothing.

    Args:
        raw: May begin and end inside of a character.
    """
    stop = len(raw)
    for at in range(len(raw) - 1, 0, -1):
        if _CONTINUES[0] <= raw[at] < _CONTINUES[1]:
            continue
        character = raw[at:stop].decode("utf-8", "ignore")
        if len(character) == 1 and begins_anew(character):
            return at
        stop = at
    return None


@cache
def begins_anew(character: str) -> bool:
    """Whether a character neither composes with what stands before it nor changes places with it, folded or not."""
    composed = unicodedata.normalize("NFKC", character)
    firsts = {unicodedata.normalize("NFKD", form)[:1] for form in (character, composed, composed.casefold())}
    return all(first and not unicodedata.combining(first) and first not in _seconds() for first in firsts)


@cache
def _seconds() -> frozenset[str]:
    """Characters that stand second in a pair that composes, and are no accents."""
    pairs = (unicodedata.decomposition(chr(code)).split() for code in range(sys.maxunicode + 1))
    found = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<")}
    return frozenset(found | {chr(code) for code in (*_VOWELS, *_FINALS)})

"""Which texts benchmarks name: by the digest of the whole text, or by shingles. Source: schemas/SPEC.md#shingles"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from shardrel.canonical.screens import screens, word_keys
from shardrel.canonical.text import normal_bytes
from shardrel.digest import Domain, domain_hash, u64
from shardrel.records.fence import Shingles

Mask = npt.NDArray[np.bool_]

# Texts are looked at in blocks of about so many bytes.
_BLOCK = 4 * 1024 * 1024
_TABLE_BITS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class _Width:
    """Shingles of one width.

    Attributes:
        table: By the first bits of a screen, whether an entry has such a one.
        screens: Of all entries, ascending.
        owners: By full digest, the numbers of the entries that have it.
        least: By number, how many an entry asks for.
    """

    words: int
    table: Mask
    screens: npt.NDArray[np.uint32]
    owners: dict[bytes, list[int]]
    least: list[int]


def named_by_text(texts: Sequence[str | None], text_digests: frozenset[bytes], shingles: frozenset[Shingles]) -> Mask:
    """Which texts a selector names; null is no text."""
    hits = np.zeros(len(texts), np.bool_)
    for first, block in _blocks(texts):
        if text_digests:
            for place, text in enumerate(block):
                if text and domain_hash(Domain.TEXT, text) in text_digests:
                    hits[first + place] = True
        for width in _widths(shingles):
            for place in _sharing(block, width):
                hits[first + place] = True
    return hits


def _blocks(texts: Sequence[str | None]) -> Iterator[tuple[int, list[bytes]]]:
    """Normalised texts, with the number of the first of them."""
    first, size = 0, 0
    block: list[bytes] = []
    for place, text in enumerate(texts):
        block.append(normal_bytes(text or ""))
        size += len(block[-1])
        if size >= _BLOCK:
            yield first, block
            first, size, block = place + 1, 0, []
    yield first, block


@lru_cache(maxsize=4)
def _widths(shingles: frozenset[Shingles]) -> list[_Width]:
    entries: dict[int, list[Shingles]] = {}
    for entry in shingles:
        entries.setdefault(entry.words, []).append(entry)
    return [_width(words, entries[words]) for words in sorted(entries)]


def _width(words: int, entries: list[Shingles]) -> _Width:
    owners: dict[bytes, list[int]] = {}
    for number, entry in enumerate(entries):
        for digest in entry.digests:
            owners.setdefault(bytes.fromhex(digest), []).append(number)
    known = np.frombuffer(bytes.fromhex("".join(entry.screens for entry in entries)), ">u4").astype(np.uint32)
    table = np.zeros(1 << _TABLE_BITS, np.bool_)
    table[known >> np.uint32(32 - _TABLE_BITS)] = True
    least = [entry.least for entry in entries]
    return _Width(words=words, table=table, screens=np.unique(known), owners=owners, least=least)


def _sharing(block: list[bytes], width: _Width) -> Iterator[int]:
    """Places of the texts that share enough shingles with one entry."""
    found: dict[int, set[bytes]] = {}
    for place, digest in _known(block, width):
        found.setdefault(place, set()).add(digest)
    for place, digests in found.items():
        counts: Counter[int] = Counter()
        for digest in digests:
            counts.update(width.owners[digest])
        if any(count >= width.least[number] for number, count in counts.items()):
            yield place


def _known(block: list[bytes], width: _Width) -> Iterator[tuple[int, bytes]]:
    """Digests that entries have, each with the place of the text that it stands in."""
    data = b"\n".join(block)
    marks = np.flatnonzero(np.frombuffer(data, np.uint8) <= 0x20)
    starts = np.concatenate([[0], marks + 1])
    lengths = np.append(marks, len(data)) - starts
    starts, lengths = starts[lengths > 0], lengths[lengths > 0]
    places = np.searchsorted(np.cumsum([len(text) + 1 for text in block]), starts, side="right")
    found = screens(word_keys(data, starts, lengths), width.words)
    near = np.flatnonzero(width.table[found >> np.uint32(32 - _TABLE_BITS)])
    at = np.searchsorted(width.screens[:-1], found[near])
    near = near[width.screens[at] == found[near]]
    prefix = hashlib.sha256(Domain.NGRAM.value + u64(width.words))
    for first in near.tolist():
        last = first + width.words - 1
        if places[first] != places[last]:
            continue
        state = prefix.copy()
        state.update(data[starts[first] : starts[last] + lengths[last]])
        if (digest := state.digest()) in width.owners:
            yield int(places[first]), digest

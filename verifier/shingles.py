"""Texts that share shingles with benchmark texts: by screens, then by full digests. Source: schemas/SPEC.md#shingles"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from shardrel.digest import Domain, u64
from shardrel.records.fence import Shingles
from verifier.digests import DigestSet
from verifier.screens import U32, screens_of, word_numbers
from verifier.words import BORDER, Bytes, Overlap, Places, words_of

# Screens are looked for in a table first, which is to be mostly empty and to stay in the cache.
_SPARSE = 16
_FEWEST_BITS, _MOST_BITS = 16, 26
_DIGEST = 32
_GROUP = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The shingles of one width that entries have.

    Attributes:
        screens: Each once, ascending.
        near: By the first bits of a screen, whether any of the screens begins with them.
        digests: Of all entries.
        alone: By the number of a digest, whether an entry asks for no more than this one.
        owners, first_owner: Numbers of the entries that ask for more, digest after digest; where each begins.
        least: How many distinct digests each entry asks for, by its number.
    """

    words: int
    screens: U32
    near: npt.NDArray[np.bool_]
    digests: DigestSet
    alone: npt.NDArray[np.bool_]
    owners: Places
    first_owner: Places
    least: Places


def wanted(entries: Iterable[Shingles]) -> tuple[Wanted, ...]:
    """The shingles of entries, ready to be looked for."""
    by_width: dict[int, list[Shingles]] = {}
    for entry in entries:
        by_width.setdefault(entry.words, []).append(entry)
    return tuple(_of_width(words, by_width[words]) for words in sorted(by_width))


def _of_width(words: int, entries: Sequence[Shingles]) -> Wanted:
    sizes = [len(entry.digests) for entry in entries]
    flat = np.frombuffer(bytes.fromhex("".join(d for entry in entries for d in entry.digests)), f"S{_DIGEST}")
    # As numbers, for numpy takes trailing zeros off strings.
    columns = flat.view(">u8").reshape(-1, 4).astype(np.uint64)
    order = _ascending(columns)
    columns, owner = columns[order], np.repeat(np.arange(len(entries)), sizes)[order]
    fresh = np.ones(len(columns), bool)
    fresh[1:] = (columns[1:] != columns[:-1]).any(axis=1)
    number = np.cumsum(fresh) - 1
    least = np.array([entry.least for entry in entries], np.int64)
    alone = np.zeros(int(fresh.sum()), bool)
    alone[number[least[owner] == 1]] = True
    counted = least[owner] > 1
    screens = np.sort(np.frombuffer(bytes.fromhex("".join(e.screens for e in entries)), ">u4").astype(np.uint32))
    screens = screens[np.diff(screens, prepend=~screens[:1]) != 0]
    return Wanted(
        words=words,
        screens=screens,
        near=_table(screens),
        digests=DigestSet(columns[fresh].astype(">u8").view(np.uint8).reshape(-1, _DIGEST)),
        alone=alone,
        owners=owner[counted],
        first_owner=np.searchsorted(number[counted], np.arange(len(alone) + 1)),
        least=least,
    )


def _ascending(columns: npt.NDArray[np.uint64]) -> Places:
    """Order of digests, of which the first 64 bits nearly always decide."""
    order = np.argsort(columns[:, 0])
    heads, rest = columns[order, 0], columns[order, 1:]
    twins = heads[1:] == heads[:-1]
    if (twins & (rest[1:] != rest[:-1]).any(axis=1)).any():
        return np.lexsort(columns.T[::-1])
    return order


def _table(screens: U32) -> npt.NDArray[np.bool_]:
    bits = min(max((_SPARSE * len(screens)).bit_length(), _FEWEST_BITS), _MOST_BITS)
    table = np.zeros(1 << bits, bool)
    table[screens >> np.uint32(32 - bits)] = True
    return table


class ShingleScan:
    """Takes the blocks of normalised texts, and finds the rows that share enough shingles with one entry.

    Args:
        shingles: The entries'.
    """

    def __init__(self, shingles: Wanted) -> None:
        self._shingles, self._overlap = shingles, Overlap(shingles.words - 1)
        self._matches = [np.empty(0, np.int64)]

    def add(self, block: Bytes) -> None:
        """Take the next block."""
        self._matches.append(_matches(*self._overlap.add(block), self._shingles))

    def rows(self) -> Places:
        """Numbers of the rows."""
        # A shingle counts once in a row, however often it is there.
        pairs = np.divmod(np.unique(np.concatenate(self._matches)), len(self._shingles.digests))
        found = np.stack(pairs, axis=1)
        enough = found[self._shingles.alone[found[:, 1]], 0]
        return np.unique(np.concatenate([enough, *_counted(found, self._shingles)]))


def _matches(row: int, piece: Bytes, shingles: Wanted) -> Places:
    """For each shingle of a piece that an entry has: its row times the number of digests, plus that of its digest."""
    starts, lengths = words_of(piece)
    none = np.empty(0, np.int64)
    if len(starts) < shingles.words:
        return none
    near = _screened(screens_of(word_numbers(piece, starts, lengths), shingles.words), shingles)
    if not len(near):
        return none
    last = near + shingles.words - 1
    borders = np.flatnonzero(piece == BORDER)
    own = np.searchsorted(borders, starts[near])
    inside = own == np.searchsorted(borders, starts[last])
    near, last, own = near[inside], last[inside], own[inside]
    digests = _digests(piece.tobytes(), starts[near], (starts + lengths)[last], shingles.words)
    numbers = shingles.digests.numbers(digests)
    known = numbers >= 0
    return np.unique((own[known] + row) * len(shingles.digests) + numbers[known])


def _screened(screens: U32, shingles: Wanted) -> Places:
    """Places whose screen an entry has; few, of any text that is not a benchmark's."""
    bits = len(shingles.near).bit_length() - 1
    places = np.flatnonzero(shingles.near[screens >> np.uint32(32 - bits)])
    close = screens[places]
    at = np.searchsorted(shingles.screens, close)
    at[at == len(shingles.screens)] = 0
    found: Places = places[shingles.screens[at] == close]
    return found


def _digests(data: bytes, starts: Places, stops: Places, words: int) -> npt.NDArray[np.uint8]:
    state = hashlib.sha256(Domain.NGRAM.value + u64(words))
    found: list[bytes] = []
    before = b""
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        shingle = data[start:stop]
        if shingle == before:
            # One word over and over is hashed once.
            found.append(found[-1])
            continue
        one = state.copy()
        one.update(shingle)
        found.append(one.digest())
        before = shingle
    return np.frombuffer(b"".join(found), np.uint8).reshape(-1, _DIGEST)


def _counted(found: Places, shingles: Wanted) -> Iterator[Places]:
    """Rows that share as many distinct shingles with one entry as it asks for, where that is more than one."""
    begin = shingles.first_owner[found[:, 1]]
    many = shingles.first_owner[found[:, 1] + 1] - begin
    for rows in _groups(found[:, 0], many):
        row = np.repeat(found[rows, 0], many[rows])
        offset = np.arange(len(row)) - np.repeat(np.cumsum(many[rows]) - many[rows], many[rows])
        owner = shingles.owners[np.repeat(begin[rows], many[rows]) + offset]
        pairs, counts = np.unique(np.stack([row, owner], axis=1), axis=0, return_counts=True)
        yield pairs[counts >= shingles.least[pairs[:, 1]], 0]


def _groups(rows: Places, sizes: Places) -> Iterator[slice]:
    """Slices of whole rows; a shingle that stands in very many entries must not need memory for all rows at once."""
    firsts = np.flatnonzero(np.diff(rows, prepend=-1))
    before = np.cumsum(sizes) - sizes
    group = before[firsts] // _GROUP
    borders = [*firsts[np.flatnonzero(np.diff(group, prepend=-1))].tolist(), len(rows)]
    return (slice(start, stop) for start, stop in pairwise(borders))

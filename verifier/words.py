"""Normalised words of a whole column of texts at once. Source: schemas/SPEC.md#text-normalisation

ASCII is folded by a table, and only what is not goes through Unicode. A text may be cut before any ASCII character:
none of them composes with what stands before it. (With what follows it may: a letter with its accent, or = with a
stroke through it.) Where a text has none for long it is cut before another character that begins anew.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from verifier.boundaries import last_boundary
from verifier.text import spaced

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

# Between rows. No byte of UTF-8 has this value.
BORDER = 0xFF
_SPACE = 0x20
_BLOCK = 4 * 1024 * 1024
_NEAR = 4096
# Runs that come again are short: a word, a quotation mark.
_SHORT = 48
_FOLD = bytes(
    code if code > 127 else (ord(chr(code).lower()) if chr(code).isalnum() else _SPACE) for code in range(256)
)


def normal_blocks(values: Any) -> Iterator[Bytes]:
    """Normalised texts of a string array one after the other, a border between them; null is a text without words.

    They come in blocks that begin and end with whole words, so that memory holds one at a time.

    Args:
        values: Valid UTF-8.
    """
    raw = _joined(values)
    before: Bytes | None = None
    word = b""
    for start, stop, within in _cuts(raw):
        folded = word + _folded(bytes(raw[start:stop]))
        # A word that goes on in the next block waits for its end.
        ended = max(folded.rfind(b" "), folded.rfind(b"\xff")) + 1 if within else len(folded)
        word, block = folded[ended:], _squeezed(np.frombuffer(folded[:ended], np.uint8))
        if len(block):
            if before is not None:
                yield _followed(before, int(block[0]))
            before = block
    if before is not None:
        yield _followed(before, BORDER)


def words_of(rows: Bytes) -> tuple[Places, Places]:
    """Where each word begins, and how many bytes it has."""
    ends = np.flatnonzero(~_in_words(rows))
    starts = np.concatenate([[0], ends + 1])
    lengths = np.append(ends, len(rows)) - starts
    if lengths.all():
        return starts, lengths
    some = lengths > 0
    return starts[some], lengths[some]


def _in_words(folded: Bytes) -> npt.NDArray[np.bool_]:
    """Bytes that are neither a space nor a border; one addition makes the border, 255, the smallest of all."""
    return (folded + np.uint8(1)) > np.uint8(_SPACE + 1)


class Overlap:
    """Puts the last words of each block in front of the next one.

    Args:
        words: How many; a window of one more is then whole in some piece, and in one alone.
    """

    def __init__(self, words: int) -> None:
        self._words, self._row, self._kept = words, 0, np.empty(0, np.uint8)

    def add(self, block: Bytes) -> tuple[int, Bytes]:
        """The piece that ends with this block, and the number of the row in which it begins."""
        row, piece = self._row, np.concatenate([self._kept, block])
        first = _last_words(piece.tobytes(), self._words)
        self._row += int(np.count_nonzero(piece[:first] == BORDER))
        self._kept = piece[first:]
        return row, piece


def _last_words(data: bytes, words: int) -> int:
    """Where the last so many words begin; a row without words is as one."""
    stop = len(data) - data.endswith(b" ")
    for _ in range(words):
        space = data.rfind(b" ", 0, stop)
        stop = max(data.rfind(b"\xff", max(space, 0), stop), space)
        if stop < 0:
            break
    return stop + 1


def _joined(values: Any) -> memoryview:
    texts = (pc.fill_null(values, "") if values.null_count else values).cast(pa.large_binary())
    if not len(texts):
        return memoryview(b"")
    whole = pa.LargeListArray.from_arrays(pa.array([0, len(texts)], pa.int64()), texts)
    return memoryview(pc.binary_join(whole, pa.scalar(b"\xff", pa.large_binary()))[0].as_buffer())


def _cuts(raw: memoryview) -> Iterator[tuple[int, int, bool]]:
    """Blocks, and whether the next one goes on inside of a word.

    Any other begins with a border, or with an ASCII character that is no part of a word.
    """
    start = 0
    while start < len(raw):
        size, within = _BLOCK, False
        while (stop := start + size) < len(raw):
            stop, within = _cut_before(raw, start, stop)
            if stop > start:
                break
            size *= 2
        stop = min(stop, len(raw))
        yield start, stop, within
        start = stop


def _cut_before(raw: memoryview, start: int, stop: int) -> tuple[int, bool]:
    """The last place behind ``start`` and before ``stop`` where a block may begin; ``start`` where there is none."""
    looked = _NEAR
    while True:
        first = max(start + 1, stop - looked)
        folded = bytes(raw[first:stop]).translate(_FOLD)
        at = max(folded.rfind(b" "), folded.rfind(b"\xff"))
        if at >= 0:
            return first + at, False
        if first == start + 1:
            break
        looked *= 8
    # Such as a script that has its own punctuation, or none.
    first = max(start + 1, stop - _NEAR)
    place = last_boundary(bytes(raw[first:stop]))
    return (start, False) if place is None else (first + place, True)


def _folded(block: bytes) -> bytes:
    """Folded characters, a space in place of each that is part of no word."""
    folded = block.translate(_FOLD)
    codes = np.frombuffer(block, np.uint8)
    high = np.flatnonzero((codes > 127) & (codes != BORDER))
    if not len(high):
        return folded
    breaks = np.flatnonzero(np.diff(high) > 1)
    firsts = high[np.concatenate([[0], breaks + 1])].tolist()
    lasts = high[np.append(breaks, len(high) - 1)].tolist()
    parts, done = [], 0
    for first, last in zip(firsts, lasts, strict=True):
        # The character before the run goes with it: it may take what follows on as an accent.
        begin = first - 1 if first > 0 and block[first - 1] != BORDER else first
        run = block[begin : last + 1]
        parts += [folded[done:begin], _known(run) if len(run) <= _SHORT else _spaced(run)]
        done = last + 1
    return b"".join([*parts, folded[done:]])


def _spaced(run: bytes) -> bytes:
    return spaced(run.decode()).encode()


_known = lru_cache(maxsize=1 << 16)(_spaced)


def _squeezed(folded: Bytes) -> Bytes:
    """One space between the words of a row, and one after the last word of the block where a space followed it."""
    inside = _in_words(folded)
    ends = np.flatnonzero(inside[:-1] > inside[1:]) + 1
    borders = np.flatnonzero(folded == BORDER)
    last = np.searchsorted(ends, borders, side="right") - 1
    inside[ends] = True
    inside[ends[last[last >= 0]]] = False
    inside[borders] = True
    kept: Bytes = folded[inside]
    return kept


def _followed(block: Bytes, following: int) -> Bytes:
    """A block that ends as what comes next asks for: one space between words, none at the end of a row."""
    last = block[-1]
    if following == BORDER:
        return block[:-1] if last == _SPACE else block
    return block if last in (_SPACE, BORDER) else np.append(block, np.uint8(_SPACE))

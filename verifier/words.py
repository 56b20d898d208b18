"""Normalised words of a whole column of texts at once. Source: schemas/SPEC.md#text-normalisation

ASCII is folded by a table, and only what is not goes through Unicode. A text may be cut before any ASCII character:
none of them composes with what stands before it. (With what follows it may: a letter with its accent, or = with a
stroke through it.)
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.canonical.sha import Bytes32, sha256_rows
from shardrel.digest import Domain
from verifier.text import spaced

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

# Between rows. No byte of UTF-8 has this value.
BORDER = 0xFF
_SPACE = 0x20
_BLOCK = 4 * 1024 * 1024
# Runs that come again are short: a word, a quotation mark.
_SHORT = 48
_FOLD = bytes(
    code if code > 127 else (ord(chr(code).lower()) if chr(code).isalnum() else _SPACE) for code in range(256)
)


def normal_rows(values: Any) -> Bytes:
    """Normalised texts of a string array one after the other, a border between them; null is a text without words.

    Args:
        values: Valid UTF-8.
    """
    raw = _joined(values)
    out: list[Bytes] = []
    for start, stop in _cuts(raw):
        block = _squeezed(np.frombuffer(_folded(raw[start:stop]), np.uint8))
        _append(out, block)
    if out and out[-1][-1] == _SPACE:
        out[-1] = out[-1][:-1]
    return out[0] if len(out) == 1 else np.concatenate([np.empty(0, np.uint8), *out])


def text_digests(rows: Bytes, count: int) -> tuple[Bytes32, npt.NDArray[np.bool_]]:
    """Text digest of each of ``count`` normalised texts, and whether it has one: no text without words has."""
    borders = np.flatnonzero(rows == BORDER)
    offsets = np.zeros(count + 1, np.int64)
    offsets[1:] = np.append(borders, len(rows))[:count] - np.arange(count)
    flat = pa.py_buffer(rows[rows != BORDER])
    texts = pa.Array.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), flat])
    domain = pa.scalar(Domain.TEXT.value, pa.large_binary())
    hashed = sha256_rows(pc.binary_join_element_wise(domain, texts, pa.scalar(b"", pa.large_binary())))
    return hashed, np.diff(offsets) > 0


def words_of(rows: Bytes) -> tuple[Places, Places]:
    """Where each word begins, and how many bytes it has."""
    ends = np.flatnonzero((rows == _SPACE) | (rows == BORDER))
    starts = np.concatenate([[0], ends + 1])
    lengths = np.append(ends, len(rows)) - starts
    if lengths.all():
        return starts, lengths
    some = lengths > 0
    return starts[some], lengths[some]


def pieces(rows: Bytes, overlap: int) -> Iterator[tuple[int, Bytes]]:
    """The number of the row in which each piece begins, and the piece.

    Pieces end with whole words; each but the first begins with the last ``overlap`` words of the one before it.
    """
    data = rows.tobytes()
    start = row = 0
    while True:
        stop, following = _piece_end(data, start, overlap)
        yield row, rows[start:stop]
        if stop == len(data):
            return
        row += int(np.count_nonzero(rows[start:following] == BORDER))
        start = following


def _piece_end(data: bytes, start: int, overlap: int) -> tuple[int, int]:
    """Where the piece ends, and where its last ``overlap`` words begin, behind its start: the next one begins there."""
    size = _BLOCK
    while start + size < len(data):
        stop = _next_mark(data, start + size)
        following = stop
        for _ in range(overlap):
            following = _mark_before(data, start, following)
        if following > start:
            return stop, following + 1
        # Words so long that a piece has too few of them.
        size *= 2
    return len(data), len(data)


def _next_mark(data: bytes, start: int) -> int:
    space = data.find(b" ", start)
    border = data.find(b"\xff", start, len(data) if space < 0 else space)
    return max(space, len(data) if space < 0 else 0) if border < 0 else border


def _mark_before(data: bytes, floor: int, stop: int) -> int:
    space = max(data.rfind(b" ", floor, stop), floor)
    return max(data.rfind(b"\xff", space, stop), space)


def _joined(values: Any) -> bytes:
    texts = pc.fill_null(values, "").cast(pa.large_binary())
    if not len(texts):
        return b""
    whole = pa.LargeListArray.from_arrays(pa.array([0, len(texts)], pa.int64()), texts)
    return bytes(pc.binary_join(whole, pa.scalar(b"\xff", pa.large_binary()))[0].as_py())


def _cuts(raw: bytes) -> Iterator[tuple[int, int]]:
    """Blocks that begin with an ASCII character which is no part of a word, or with a border."""
    start = 0
    while start < len(raw):
        size = _BLOCK
        while (stop := start + size) < len(raw):
            folded = raw[start + 1 : stop].translate(_FOLD)
            at = max(folded.rfind(b" "), folded.rfind(b"\xff"))
            if at >= 0:
                stop = start + 1 + at
                break
            size *= 2
        yield start, min(stop, len(raw))
        start = stop


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
    inside = (folded != _SPACE) & (folded != BORDER)
    edges = np.flatnonzero(np.diff(inside, prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2]
    borders = np.flatnonzero(folded == BORDER)
    inside[ends[ends < len(folded)]] = True
    last = np.searchsorted(starts, borders) - 1
    inside[ends[last[last >= 0]]] = False
    inside[borders] = True
    kept: Bytes = folded[inside]
    return kept


def _append(out: list[Bytes], block: Bytes) -> None:
    if not len(block):
        return
    # A block that is not the first begins with a border, or with what stands between two words.
    before = out[-1][-1] if out else BORDER
    if block[0] == BORDER and before == _SPACE:
        out[-1] = out[-1][:-1]
    elif block[0] != BORDER and before not in (BORDER, _SPACE):
        out.append(np.full(1, _SPACE, np.uint8))
    out.append(block)

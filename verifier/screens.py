"""The cheap half of a shingle: its screen, written from the SPEC. Source: schemas/SPEC.md#shingles"""

import numpy as np
import numpy.typing as npt

from verifier.words import Bytes, Places

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]

_K = np.uint64(0x9E3779B97F4A7C15)
_C = 0xD1342543DE82EF95
_EIGHT = 8
# Of eight loaded bytes those that belong to the word, by how many these are.
_OWN = np.array([(1 << 8 * own) - 1 for own in range(_EIGHT + 1)], np.uint64)


def word_numbers(rows: Bytes, starts: Places, lengths: Places) -> U64:
    """The number k of each word."""
    tail = np.concatenate([rows, np.zeros(2 * _EIGHT, np.uint8)])
    heads = np.ndarray(len(rows) + _EIGHT + 1, "<u8", tail.data, strides=(1,))
    x: U64 = (heads[starts] & _OWN[np.minimum(lengths, _EIGHT)]) * _K
    x ^= x >> np.uint64(32)
    # Few words are longer than eight bytes, and only these have a second half.
    long = np.flatnonzero(lengths > _EIGHT)
    x[long] += heads[starts[long] + _EIGHT] & _OWN[np.minimum(lengths[long] - _EIGHT, _EIGHT)]
    x *= _K
    x ^= x >> np.uint64(29)
    x += lengths.astype(np.uint64)
    x *= _K
    return x


def screens_of(numbers: U64, words: int) -> U32:
    """The screen of each run of so many neighbouring words, by the place of its first; there is at least one."""
    part, width = numbers, 1
    total, done = numbers[:0], 0
    rest = words
    while rest:
        if rest & 1:
            total = part if not done else _side_by_side(part, total, width, done)
            done += width
        rest >>= 1
        if rest:
            part, width = _side_by_side(part, part, width, width), 2 * width
    mixed = (total ^ (total >> np.uint64(32))) * _K
    return (mixed >> np.uint64(32)).astype(np.uint32)


def _side_by_side(left: U64, right: U64, left_words: int, right_words: int) -> U64:
    """Sums over runs of words, each followed at once by another run."""
    following = right[left_words:]
    return left[: len(following)] * np.uint64(pow(_C, right_words, 1 << 64)) + following

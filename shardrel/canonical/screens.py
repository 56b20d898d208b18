"""Screens of shingles, many at once: 32 bits that say where a full digest is worth its time.

Source: schemas/SPEC.md#shingles
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Screens = npt.NDArray[np.uint32]

_K = np.uint64(0x9E3779B97F4A7C15)
_C = 0xD1342543DE82EF95
_HEAD = 8
# How many bytes of a word of so many bytes belong to its first (or second) eight.
_MASKS = np.array([(1 << (8 * kept)) - 1 for kept in range(_HEAD + 1)], np.uint64)


def word_keys(data: bytes, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Keys:
    """A number for each word of a buffer.

    Args:
        data: UTF-8 of the words, and whatever stands between them.
        starts: Where each word begins.
        lengths: How many bytes it has, at least one.
    """
    padded = data + bytes(2 * _HEAD)
    eights = np.ndarray((len(data) + _HEAD + 1,), "<u8", padded, strides=(1,))
    keys: Keys = eights[starts] & _MASKS[np.minimum(lengths, _HEAD)]
    keys *= _K
    keys ^= keys >> np.uint64(32)
    keys += eights[starts + _HEAD] & _MASKS[np.clip(lengths - _HEAD, 0, _HEAD)]
    keys *= _K
    keys ^= keys >> np.uint64(29)
    keys += lengths.astype(np.uint64)
    keys *= _K
    return keys


def screens(keys: Keys, words: int) -> Screens:
    """Screen of every run of ``words`` neighbouring words; of fewer words there is none."""
    count = len(keys) - words + 1
    if count <= 0:
        return np.empty(0, np.uint32)
    sums = _window_sums(keys, words)
    sums ^= sums >> np.uint64(32)
    sums *= _K
    found: Any = sums >> np.uint64(32)
    return np.asarray(found, np.uint32)


def _window_sums(keys: Keys, words: int) -> Keys:
    """Horner's sums of all windows; a window is put together from windows of half its width."""
    if words == 1:
        return keys.copy()
    half = words // 2
    halves = _window_sums(keys, half)
    count = len(keys) - words + 1
    sums = halves[: len(keys) - 2 * half + 1] * _power(half) + halves[half:]
    if words % 2:
        sums = sums[:count] * _power(1) + keys[words - 1 :]
    return sums


def _power(exponent: int) -> np.uint64:
    return np.uint64(pow(_C, exponent, 1 << 64))

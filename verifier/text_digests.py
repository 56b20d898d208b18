"""Text digests of a column of texts, from its normalised words. Source: schemas/SPEC.md#text-normalisation"""

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.canonical.sha import Bytes32, sha256_rows
from shardrel.digest import Domain
from verifier.words import BORDER, Bytes, Places

_NONE = pa.scalar(b"", pa.large_binary())
_DOMAIN = pa.scalar(Domain.TEXT.value, pa.large_binary())


class TextDigests:
    """Takes the blocks of normalised texts; a text that spans several is hashed as it comes.

    Args:
        count: How many texts there are.
    """

    def __init__(self, count: int) -> None:
        self._digests, self._known = np.zeros((count, 32), np.uint8), np.zeros(count, bool)
        self._row, self._open, self._bytes = 0, hashlib.sha256(Domain.TEXT.value), 0

    def add(self, block: Bytes) -> None:
        """Take the next block."""
        borders = np.flatnonzero(block == BORDER)
        if len(borders):
            self._go_on(block[: borders[0]])
            self._close()
            self._whole(block[borders[0] + 1 : borders[-1]], borders[1:] - borders[0] - 1)
            block = block[borders[-1] + 1 :]
        self._go_on(block)

    def finish(self) -> tuple[Bytes32, npt.NDArray[np.bool_]]:
        """The digest of each text, and whether it has one: no text without words has."""
        if self._row < len(self._known):
            self._close()
        return self._digests, self._known

    def _go_on(self, text: Bytes) -> None:
        self._open.update(text.tobytes())
        self._bytes += len(text)

    def _close(self) -> None:
        if self._bytes:
            self._digests[self._row] = np.frombuffer(self._open.digest(), np.uint8)
            self._known[self._row] = True
        self._row, self._open, self._bytes = self._row + 1, hashlib.sha256(Domain.TEXT.value), 0

    def _whole(self, rows: Bytes, ends: Places) -> None:
        """Texts that lie within one block, each followed by a border at its end."""
        if not len(ends):
            return
        offsets = np.zeros(len(ends) + 1, np.int64)
        offsets[1:] = ends - np.arange(len(ends))
        flat = pa.py_buffer(rows[rows != BORDER])
        texts = pa.Array.from_buffers(pa.large_binary(), len(ends), [None, pa.py_buffer(offsets), flat])
        own = slice(self._row, self._row + len(ends))
        self._digests[own] = sha256_rows(pc.binary_join_element_wise(_DOMAIN, texts, _NONE))
        self._known[own] = np.diff(offsets) > 0
        self._row += len(ends)

"""A set of digests to look many digests up in: by their first 64 bits, then by all of them."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from shardrel.canonical.sha import Bytes32

Numbers = npt.NDArray[np.int64]
_BYTES = 32


class DigestSet:
    """Distinct digests, numbered in ascending order.

    Args:
        digests: 32 raw bytes each, ascending, each once.
    """

    def __init__(self, digests: Bytes32) -> None:
        self._digests, self._heads = digests, _heads(digests)

    @classmethod
    def of(cls, digests: Iterable[bytes]) -> "DigestSet":
        """From raw digests in any order."""
        return cls(np.frombuffer(b"".join(sorted(set(digests))), np.uint8).reshape(-1, _BYTES))

    def __len__(self) -> int:
        return len(self._digests)

    def __or__(self, other: "DigestSet") -> "DigestSet":
        """The digests of both."""
        return DigestSet.of(row.tobytes() for one in (self, other) for row in one._digests)

    def numbers(self, digests: Bytes32) -> Numbers:
        """The number of each digest, -1 for one that is not in the set."""
        heads = _heads(digests)
        at, found = np.searchsorted(self._heads, heads), np.full(len(heads), -1, np.int64)
        undecided = np.arange(len(heads))
        while len(undecided):
            undecided = undecided[at[undecided] < len(self._heads)]
            undecided = undecided[self._heads[at[undecided]] == heads[undecided]]
            same = (self._digests[at[undecided]] == digests[undecided]).all(axis=1)
            found[undecided[same]] = at[undecided[same]]
            # Another digest with the same first 64 bits may follow.
            undecided = undecided[~same]
            at[undecided] += 1
        return found

    def holds(self, digests: Bytes32) -> npt.NDArray[np.bool_]:
        """Which of these digests are in the set."""
        return self.numbers(digests) >= 0


def _heads(digests: Bytes32) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(digests[:, :8]).view(">u8").ravel().astype(np.uint64)

"""The Merkle tree of an append-only log, and proofs that one of its states extends another. Pure.

Source: RFC 6962 section 2.1; RFC 9162 section 2.1.4.2 for the check.
"""

import hashlib
from collections.abc import Iterable, Sequence

EMPTY = hashlib.sha256().digest()


def leaf_hash(entry: bytes) -> bytes:
    """Hash of one entry."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash over two subtrees."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Tree:
    """A log's tree; every subtree that is full is hashed once.

    Args:
        entries: From the first one on.
    """

    def __init__(self, entries: Iterable[bytes]) -> None:
        self._levels = [[leaf_hash(entry) for entry in entries]]
        while len(below := self._levels[-1]) > 1:
            self._levels.append([node_hash(below[at], below[at + 1]) for at in range(0, len(below) - 1, 2)])

    @property
    def size(self) -> int:
        """Number of entries."""
        return len(self._levels[0])

    def root(self, size: int) -> bytes:
        """Root hash over the first ``size`` entries."""
        return EMPTY if size == 0 else self._range(0, size)

    def consistency(self, old: int, new: int) -> list[bytes]:
        """Proof that the first ``new`` entries begin with the first ``old``; empty from nothing, or where both are one."""
        return [] if old in (0, new) else self._proof(old, 0, new, whole=True)

    def _proof(self, old: int, start: int, end: int, *, whole: bool) -> list[bytes]:
        """The proof inside of one subtree, of which the first ``old`` entries were there before."""
        if old == end - start:
            return [] if whole else [self._range(start, end)]
        split = _split(end - start)
        if old <= split:
            return [*self._proof(old, start, start + split, whole=whole), self._range(start + split, end)]
        return [*self._proof(old - split, start + split, end, whole=False), self._range(start, start + split)]

    def _range(self, start: int, end: int) -> bytes:
        count = end - start
        if count & (count - 1) == 0:
            return self._levels[count.bit_length() - 1][start // count]
        split = _split(count)
        return node_hash(self._range(start, start + split), self._range(start + split, end))


def extends(old: tuple[int, bytes], new: tuple[int, bytes], proof: Sequence[bytes]) -> bool:
    """Whether a proof shows that a log with one size and root extends one with another.

    Args:
        old: Size and root hash before.
        new: Size and root hash after.
        proof: As ``Tree.consistency`` gives it.
    """
    (size, root), (later, later_root) = old, new
    if size == 0 or size == later:
        return not proof and (root == EMPTY if size == 0 else root == later_root)
    path = [root, *proof] if size & (size - 1) == 0 else list(proof)
    if size > later or not path:
        return False
    before, after = size - 1, later - 1
    while before & 1:
        before, after = before >> 1, after >> 1
    return _climb(path, before, after) == (root, later_root)


def _climb(path: Sequence[bytes], before: int, after: int) -> tuple[bytes, bytes] | None:
    """Both roots that a path leads to; None where it is too short or too long."""
    first = second = path[0]
    for node in path[1:]:
        if after == 0:
            return None
        if before & 1 or before == after:
            first, second = node_hash(node, first), node_hash(node, second)
            while before and not before & 1:
                before, after = before >> 1, after >> 1
        else:
            second = node_hash(second, node)
        before, after = before >> 1, after >> 1
    return (first, second) if after == 0 else None


def _split(count: int) -> int:
    """The largest power of two below ``count``."""
    return 1 << ((count - 1).bit_length() - 1)

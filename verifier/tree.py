"""The Merkle tree over all leaves, built as they come. Source: schemas/SPEC.md#ordered-root"""

import numpy as np

from shardrel.canonical.sha import Bytes32
from shardrel.digest import Digest, Domain, domain_hash, to_digest, u64
from verifier.pieces import Fixed, constant, digests

# A block of the member index: the leaves under one node of this level.
_BLOCK_LEVEL = 16


class OrderedTree:
    """RFC 6962 tree of which only the right edge is kept: one pending node a level."""

    def __init__(self) -> None:
        self._pending: list[Bytes32 | None] = []
        self._blocks: list[bytes] = []
        self.count = 0

    def append(self, leaves: Bytes32) -> None:
        """Add leaves, shape (n, 32), on the right."""
        self.count += len(leaves)
        level, nodes = 0, leaves
        while len(nodes):
            if level == _BLOCK_LEVEL:
                self._blocks += [node.tobytes() for node in nodes]
            if level == len(self._pending):
                self._pending.append(None)
            waiting = self._pending[level]
            if waiting is not None:
                nodes = np.concatenate([waiting, nodes])
            odd = len(nodes) % 2
            self._pending[level] = nodes[-1:].copy() if odd else None
            nodes = parents(nodes[: len(nodes) - odd])
            level += 1

    def head(self) -> bytes:
        """Hash of the tree over everything appended so far; at least one leaf."""
        return _joined([node.tobytes() for node in self._pending if node is not None])

    def block_roots(self) -> tuple[Digest, ...]:
        """Hash of the tree over each started block of 65,536 leaves."""
        rest = [node.tobytes() for node in self._pending[:_BLOCK_LEVEL] if node is not None]
        return tuple(map(to_digest, [*self._blocks, _joined(rest)] if rest else self._blocks))

    def ordered_root(self, tombstone_watermark: int, benchmark_fence: int) -> Digest:
        """``orderedMemberTupleRoot`` at both watermarks."""
        tail = u64(self.count) + u64(tombstone_watermark) + u64(benchmark_fence)
        return to_digest(domain_hash(Domain.ROOT, self.head(), tail))


def _joined(nodes: list[bytes]) -> bytes:
    """Hash over pending nodes, the lowest and rightmost first."""
    right = nodes[0]
    for left in nodes[1:]:
        right = domain_hash(Domain.NODE, left, right)
    return right


def parents(nodes: Bytes32) -> Bytes32:
    """Nodes one level up; an even number of nodes goes in."""
    pairs = len(nodes) // 2
    if not pairs:
        return np.empty((0, 32), np.uint8)
    return digests(pairs, [constant(Domain.NODE.value), Fixed(nodes.reshape(pairs, 64), None)])[0]

"""Ordered Merkle tree of RFC 6962's shape, as a stream. Source: schemas/SPEC.md#ordered-root.

Only one pending node a level is kept, so memory does not grow with the number of leaves.
"""

import numpy as np

from shardrel.canonical.parts import Fixed, constant, digests
from shardrel.canonical.sha import Bytes32
from shardrel.digest import Domain, domain_hash, u64

# Leaves of one block, whose roots the member index holds: a perfect subtree, so the tree is one over block roots.
BLOCK_LEAVES = 1 << 16
_BLOCK_LEVEL = 16
# 80 bytes a pair: 80 MiB of node bytes at a time.
_PAIRS = 1 << 20


class MerkleStream:
    """Takes leaves in canonical order and knows the root of all that it was given."""

    def __init__(self) -> None:
        self._pending: list[Bytes32 | None] = []
        self._blocks: list[Bytes32] = []
        self.count = 0

    def append(self, leaves: Bytes32) -> None:
        """Add leaves, shape (n, 32), uint8, in order."""
        self.count += len(leaves)
        level = 0
        nodes = leaves
        while len(nodes):
            if level == len(self._pending):
                self._pending.append(None)
            if level == _BLOCK_LEVEL:
                self._blocks.append(nodes)
            waiting = self._pending[level]
            if waiting is not None:
                nodes = np.concatenate((waiting, nodes))
            odd = len(nodes) % 2
            self._pending[level] = nodes[-1:].copy() if odd else None
            nodes = parents(nodes[: len(nodes) - odd])
            level += 1

    def root(self) -> bytes:
        """Root of the leaves so far, 32 bytes; there has to be one."""
        if not self.count:
            raise ValueError("there is no empty release")
        node = _folded(self._pending)
        assert node is not None  # a tree with leaves has a pending node
        return node

    def block_roots(self) -> list[bytes]:
        """Root of every started block of ``BLOCK_LEAVES`` leaves; the last block may hold fewer."""
        whole = [root.tobytes() for nodes in self._blocks for root in nodes]
        rest = _folded(self._pending[:_BLOCK_LEVEL])
        return whole if rest is None else [*whole, rest]


def _folded(pending: list[Bytes32 | None]) -> bytes | None:
    """Root over the nodes that wait at some lowest levels; None where none does."""
    node: bytes | None = None
    for waiting in pending:
        if waiting is not None:
            left = waiting.tobytes()
            node = left if node is None else domain_hash(Domain.NODE, left, node)
    return node


def parents(nodes: Bytes32) -> Bytes32:
    """Parents of an even number of nodes, pair by pair."""
    pairs = len(nodes) // 2
    out = np.empty((pairs, 32), np.uint8)
    for at in range(0, pairs, _PAIRS):
        part = nodes[2 * at : 2 * (at + _PAIRS)]
        rows = len(part) // 2
        both = Fixed(column=np.ascontiguousarray(part).reshape(rows, 64).view("V64").reshape(-1))
        out[at : at + _PAIRS] = digests([constant(Domain.NODE.value, rows), both], rows)[0]
    return out


def ordered_root(tree: bytes, members: int, tombstone_watermark: int, benchmark_fence: int) -> bytes:
    """Ordered member tuple root: tree, number of leaves and both watermarks."""
    return domain_hash(Domain.ROOT, tree, u64(members), u64(tombstone_watermark), u64(benchmark_fence))

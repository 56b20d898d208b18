"""Nodes beside a range of leaves: two implementations and the definition, over all small trees and all ranges."""

import hashlib

import numpy as np
import pytest

from shardrel.membership import merkle, proof
from shardrel.membership.proof import range_nodes, subtrees_beside, tree_of_range
from tests.support.members import slow_tree
from tests.support.proofs import slow_nodes
from verifier.proof import tree_head

LEAVES = [hashlib.sha256(bytes([i])).digest() for i in range(64)]


@pytest.mark.parametrize("n", range(1, 41))
def test_both_ways_through_the_tree_agree_for_every_range(n: int) -> None:
    leaves, root = LEAVES[:n], slow_tree(LEAVES[:n])
    for first in range(n):
        for last in range(first + 1, n + 1):
            nodes = slow_nodes(leaves, first, last)
            assert len(nodes) == len(list(subtrees_beside(first, last, n)))
            for find in (tree_of_range, tree_head):
                shown = leaves[first:last]
                assert find(first, shown, nodes, n) == root
                assert find(first, shown, [*nodes, nodes[-1] if nodes else root], n) is None
                if nodes:
                    assert find(first, shown, nodes[:-1], n) is None
                    assert find(first, shown, nodes[1:], n) != root
                elsewhere = first + 1 if last < n else first - 1
                if elsewhere >= 0:
                    assert find(elsewhere, shown, nodes, n) != root


@pytest.mark.parametrize("n", range(1, 41))
def test_block_roots_stand_for_the_leaves_of_other_blocks(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merkle, "_BLOCK_LEVEL", 2)
    monkeypatch.setattr(proof, "BLOCK_LEAVES", 4)
    matrix = np.frombuffer(b"".join(LEAVES[:n]), np.uint8).reshape(n, 32)
    stream = merkle.MerkleStream()
    stream.append(matrix)
    for first in range(0, n, 3):
        last = min(first + 1 + n % 4, n)
        blocks = range(first // 4, (last - 1) // 4 + 1)

        def leaves(lower: int, upper: int, blocks: range = blocks) -> np.ndarray:
            assert lower // 4 in blocks
            assert (upper - 1) // 4 in blocks
            return matrix[lower:upper]

        nodes = range_nodes(first, last, n, stream.block_roots(), leaves)
        assert nodes == slow_nodes(LEAVES[:n], first, last)

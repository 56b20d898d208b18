"""Which nodes of the ordered tree a range of its leaves needs, and where they lead. Source: schemas/SPEC.md#proofs

The tree is cut from above: a subtree without a leaf of the range is one node of the proof. ``verifier.proof``
goes the other way, level by level from the leaves up.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from shardrel.canonical.sha import Bytes32
from shardrel.digest import Domain, domain_hash
from shardrel.membership.merkle import BLOCK_LEAVES, MerkleStream

Leaves = Callable[[int, int], Bytes32]


def subtrees_beside(first: int, last: int, count: int) -> Iterator[tuple[int, int]]:
    """The largest subtrees of a tree of ``count`` leaves that hold none of the leaves [first, last).

    Yields:
        Half-open ranges of leaves, from left to right.
    """
    yield from _beside(first, last, 0, count)


def range_nodes(first: int, last: int, count: int, block_roots: Sequence[bytes], leaves: Leaves) -> list[bytes]:
    """Roots of the subtrees beside the leaves [first, last).

    Args:
        first: First leaf of the range.
        last: The leaf behind it.
        count: Leaves of the tree.
        block_roots: Root of each started block of ``BLOCK_LEAVES`` leaves.
        leaves: Gives the leaves [from, to), shape (n, 32); asked only for leaves of blocks that the range meets.
    """
    roots = np.frombuffer(b"".join(block_roots), np.uint8).reshape(-1, 32)

    def root_of(lower: int, upper: int) -> bytes:
        stream = MerkleStream()
        # A subtree of more than a block, or of the last one, is one over block roots; its borders are those of blocks.
        if upper - lower >= BLOCK_LEAVES:
            stream.append(roots[lower // BLOCK_LEAVES : -(-upper // BLOCK_LEAVES)])
        else:
            stream.append(_inside(lower, upper, count, roots, leaves))
        return stream.root()

    return [root_of(lower, upper) for lower, upper in subtrees_beside(first, last, count)]


def tree_of_range(first: int, shown: Sequence[bytes], nodes: Sequence[bytes], count: int) -> bytes | None:
    """Root of the tree that has these leaves from ``first`` on and these nodes beside them.

    Returns:
        None where there are more or fewer nodes than such a tree has.
    """
    last = first + len(shown)
    waiting = iter(nodes)

    def root_of(lower: int, upper: int) -> bytes:
        if upper <= first or lower >= last:
            return next(waiting)
        if upper - lower == 1:
            return shown[lower - first]
        middle = lower + _left_size(upper - lower)
        left = root_of(lower, middle)
        return domain_hash(Domain.NODE, left, root_of(middle, upper))

    if len(nodes) != sum(1 for _ in subtrees_beside(first, last, count)):
        return None
    return root_of(0, count)


def _beside(first: int, last: int, lower: int, upper: int) -> Iterator[tuple[int, int]]:
    if upper <= first or lower >= last:
        yield lower, upper
    elif not (first <= lower and upper <= last):
        middle = lower + _left_size(upper - lower)
        yield from _beside(first, last, lower, middle)
        yield from _beside(first, last, middle, upper)


def _inside(lower: int, upper: int, count: int, roots: Bytes32, leaves: Leaves) -> Bytes32:
    """What a subtree below the size of a block is computed from: the root of the last block where it is that."""
    if upper == count and lower % BLOCK_LEAVES == 0:
        return roots[-1:]
    return leaves(lower, upper)


def _left_size(leaves: int) -> int:
    """Leaves of the left subtree: the largest power of two below their number."""
    return 1 << (leaves - 1).bit_length() - 1

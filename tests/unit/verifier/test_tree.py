"""The streaming tree against RFC 6962's recursive definition."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.digest import Domain, domain_hash, to_digest, u64
from verifier.tree import OrderedTree


def leaves(count: int) -> npt.NDArray[np.uint8]:
    """Distinct leaves."""
    return np.arange(count * 4, dtype=np.int64).view(np.uint8).reshape(count, 32)


def by_definition(nodes: list[bytes]) -> bytes:
    """A tree of n > 1 leaves: left holds the largest power of two smaller than n."""
    if len(nodes) == 1:
        return nodes[0]
    left = 1 << (len(nodes) - 1).bit_length() - 1
    return domain_hash(Domain.NODE, by_definition(nodes[:left]), by_definition(nodes[left:]))


@settings(deadline=None, max_examples=60)
@given(cuts=st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any))
def test_any_cutting_gives_the_tree_of_the_definition(cuts: list[int]) -> None:
    tree, whole = OrderedTree(), leaves(sum(cuts))
    at = 0
    for cut in cuts:
        tree.append(whole[at : at + cut])
        at += cut
    assert tree.count == len(whole)
    assert tree.head() == by_definition([row.tobytes() for row in whole])


@pytest.mark.parametrize("count", [1, 2, 3, 64, 65, 1000])
def test_the_ordered_root_binds_count_and_watermarks(count: int) -> None:
    tree = OrderedTree()
    tree.append(leaves(count))
    roots = {tree.ordered_root(t, b) for t, b in [(0, 0), (1, 0), (0, 1)]}
    assert len(roots) == 3
    tail = u64(count) + u64(1) + u64(0)
    assert to_digest(domain_hash(Domain.ROOT, tree.head(), tail)) in roots


def test_appending_keeps_no_view_of_the_callers_leaves() -> None:
    tree, mine = OrderedTree(), leaves(3)
    tree.append(mine)
    head = tree.head()
    mine[:] = 0
    assert tree.head() == head

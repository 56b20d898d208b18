"""Leaves are those of the values, wherever in its buffers an array begins and however long its strings are."""

import numpy as np
import pyarrow as pa
import pytest

from shardrel.membership.tuples import tuple_leaves

SCHEMA = bytes(32)


def leaves(ids: pa.Array, content: np.ndarray) -> np.ndarray:
    sources, splits = pa.array(["a", "b"] * (len(ids) // 2)), pa.array(["train"] * len(ids))
    return tuple_leaves(ids, sources, splits, content, splits, SCHEMA)


@pytest.mark.parametrize("names", [[f"id-{n:04}" for n in range(12)], [f"id-{n * n}" for n in range(12)]])
def test_a_slice_has_the_leaves_of_its_values(names: list[str]) -> None:
    content = np.random.default_rng(1).integers(0, 256, (12, 32), dtype=np.uint8)
    sliced = leaves(pa.array(names).slice(4, 6), content[4:10])
    assert np.array_equal(sliced, leaves(pa.array(names[4:10]), content[4:10]))
    assert len({leaf.tobytes() for leaf in sliced}) == 6


def test_one_origin_for_all_is_the_origin_of_each() -> None:
    """Where all rows share source, version and split, these are hashed once for all of them."""
    content = np.zeros((2, 32), np.uint8)
    same, other = pa.array(["s", "s"]), pa.array(["s", "t"])
    ids = pa.array(["a", "b"])
    together = tuple_leaves(ids, same, same, content, same, SCHEMA)
    apart = tuple_leaves(ids, other, same, content, same, SCHEMA)
    assert np.array_equal(together[0], apart[0])
    assert not np.array_equal(together[1], apart[1])

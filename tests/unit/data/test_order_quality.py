"""The order shuffles nearly as well as a full shuffle does, since a release's shards are no runs of its source."""

import numpy as np

from benchmarks.order_quality import ours, quality

SAMPLES = 1 << 16


def test_a_full_shuffle_has_ones_and_none_has_none() -> None:
    rng = np.random.default_rng(4)
    full = quality(rng.permutation(SAMPLES), rng.permutation(SAMPLES))
    assert all(0.98 < figure < 1.02 for figure in full.values())
    none = quality(np.arange(SAMPLES), np.arange(SAMPLES))
    assert all(figure < 0.02 for figure in none.values())


def test_neighbours_of_the_source_are_as_far_apart_as_in_a_full_shuffle() -> None:
    found = quality(ours(SAMPLES, 64, 8, 0), ours(SAMPLES, 64, 8, 1))
    assert found["spread"] > 0.98
    assert found["mixture"] > 0.98
    # Neighbours come from the same shard once in eight times, and then stay in one block of the next epoch.
    assert found["parting"] > 0.8

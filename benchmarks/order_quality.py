"""How well an order shuffles: three figures, 1.0 each for a full shuffle. Source: schemas/SPEC.md#sample-order

- ``spread``: mean distance in an epoch between samples that are neighbours in the source, over that of a full shuffle
  (a third of the epoch). Near 0 where runs of the source stay together.
- ``mixture``: entropy of the source parts (256 equal ones) that a batch of 256 comes from, over that of a full shuffle.
- ``parting``: of samples that are neighbours in one epoch, mean distance in the next, over that of a full shuffle.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from shardrel.data.order import BatchSpan, SampleOrder, samples_of, splitmix64

Order = npt.NDArray[np.int64]
"""Numbers of samples in the source, in the order of an epoch."""

PARTS = 256
BATCH = 256


def quality(first: Order, second: Order) -> dict[str, float]:
    """The three figures of two epochs of one order."""
    rng = np.random.default_rng(0)
    full = (rng.permutation(len(first)), rng.permutation(len(first)))
    return {
        "spread": round(_apart(_places(first)), 3),
        "mixture": round(_entropy(first) / _entropy(full[0]), 3),
        "parting": round(_apart(_places(second)[first]), 3),
    }


def ours(samples: int, shards: int, block_shards: int, epoch: int) -> Order:
    """A release: records fall into shards by their digests, and stand in a shard in the order of their ids."""
    shard = (splitmix64(5, samples) % np.uint64(shards)).astype(np.int64)
    members = np.argsort(shard, kind="stable")
    sizes = np.bincount(shard, minlength=shards)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    order = SampleOrder(sizes=tuple(sizes.tolist()), seed=1, block_shards=block_shards)
    taken = samples_of(order, BatchSpan(epoch=epoch, start=0, count=samples)).astype(np.int64)
    return np.asarray(members[starts[taken[:, 0]] + taken[:, 1]], np.int64)


def _places(order: Order) -> Order:
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


def _apart(places: Any) -> float:
    return float(np.abs(np.diff(places)).mean() / (len(places) / 3))


def _entropy(order: Order) -> float:
    """Mean over the batches, in bits."""
    parts = (order[: len(order) // BATCH * BATCH] * PARTS // len(order)).reshape(-1, BATCH)
    found = []
    for batch in parts:
        share = np.bincount(batch, minlength=PARTS) / BATCH
        share = share[share > 0]
        found.append(-(share * np.log2(share)).sum())
    return float(np.mean(found))

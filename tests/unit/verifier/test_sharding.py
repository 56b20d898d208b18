"""The verifier's own sharding rule against the publisher's, and a member that lies in another shard."""

import numpy as np
import pytest
from msgspec.structs import replace

from publisher.partition import shard_numbers
from shardrel.errors import ErrorCode
from shardrel.records.release import Sharding
from tests.support.release_builder import a_release, codes
from verifier.sharding import strays


@pytest.mark.parametrize(("shards", "seed"), [(1, 0), (2, 7), (1000, 2**53 - 1)])
def test_both_sides_put_every_leaf_into_the_same_shard(shards: int, seed: int) -> None:
    leaves = np.random.default_rng(3).integers(0, 256, (500, 32), dtype=np.uint8)
    numbers = shard_numbers(leaves, shards, seed)
    sharding = Sharding(function="tuple-splitmix64.v1", shards=shards, seed=seed, sort_key="member-tuple.v1")
    for number in (0, shards // 2, shards - 1):
        assert strays(leaves, sharding, number) == int(np.count_nonzero(numbers != number))


def test_a_declared_seed_that_the_shards_were_not_made_with() -> None:
    built = a_release()
    built.release = replace(built.release, sharding=replace(built.release.sharding, seed=12345))
    assert codes(built.report()) == {ErrorCode.ROOT_SHARDS}

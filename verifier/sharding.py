"""Which shard a member belongs to, in the verifier's own words. Source: schemas/SPEC.md#sharding"""

import numpy as np

from shardrel.canonical.sha import Bytes32
from shardrel.digest import Domain, domain_hash, u64
from shardrel.records.release import Sharding


def strays(leaves: Bytes32, sharding: Sharding, number: int) -> int:
    """Members whose leaves say that they belong to another shard than this one."""
    start = np.frombuffer(domain_hash(Domain.SEED, u64(sharding.seed))[:8], "<u8")[0]
    z = np.ascontiguousarray(leaves[:, :8]).view("<u8").ravel() + start
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return int(np.count_nonzero(z % np.uint64(sharding.shards) != number))

"""The sharding rule: which shard a member falls into. Source: schemas/SPEC.md#sharding."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from shardrel.canonical.sha import Bytes32
from shardrel.digest import Domain, domain_hash, u64

FUNCTION: Literal["tuple-splitmix64.v1"] = "tuple-splitmix64.v1"
SHARD_BYTES = 64 * 1024 * 1024

ShardNumbers = npt.NDArray[np.uint32]


def shard_numbers(leaves: Bytes32, shards: int, seed: int) -> ShardNumbers:
    """Number of the shard of each member.

    Args:
        leaves: Of the members' tuples, shape (n, 32), uint8.
        shards: How many shards there are.
        seed: Of the release.
    """
    words = np.ascontiguousarray(leaves[:, :8]).view("<u8").reshape(len(leaves)).astype(np.uint64)
    mixed = _mix(words + _seed_word(seed))
    return (mixed % np.uint64(shards)).astype(np.uint32)


def shard_count(logical_bytes: int, shard_bytes: int) -> int:
    """Shards of about ``shard_bytes`` logical bytes each; at least one."""
    return max(1, -(-logical_bytes // shard_bytes))


def shard_id(number: int, shards: int) -> str:
    """Name of one shard of a release."""
    return f"shard-{number:05d}-of-{shards:05d}"


def _seed_word(seed: int) -> np.uint64:
    return np.uint64(int.from_bytes(domain_hash(Domain.SEED, u64(seed))[:8], "little"))


def _mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finalizer of SplitMix64; unsigned arithmetic wraps as it must."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))

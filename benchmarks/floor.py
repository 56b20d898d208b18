"""The floor of a verification: reading the files and the hashes that no verifier can leave out.

Per record one content hash, one tuple hash and one tree node; nothing is encoded or compared. The rows are
made beforehand, with the lengths that the real ones have.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from shardrel.canonical.sha import fixed_rows, sha256_rows

TUPLE_BYTES = 16 + 32 + 32 + 17
NODE_BYTES = 80


class Hashes:
    """Prepared rows of one shard, hashed once a shard by ``run``."""

    def __init__(self, records: int, content_bytes: int, shards: int) -> None:
        rng = np.random.default_rng(1)
        self._content = _rows(rng, records, content_bytes)
        self._tuples = _rows(rng, records, TUPLE_BYTES)
        self._nodes = _rows(rng, records, NODE_BYTES)
        self._shards = shards

    def run(self, threads: int) -> None:
        """Content, tuple and node hashes of every shard."""
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(self._one, range(self._shards)))

    def _one(self, shard: int) -> None:
        for rows in (self._content, self._tuples, self._nodes):
            sha256_rows(rows)


def _rows(rng: np.random.Generator, records: int, width: int) -> pa.Array:
    return fixed_rows(rng.integers(0, 256, (records, width), dtype=np.uint8))

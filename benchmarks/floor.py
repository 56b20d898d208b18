"""The floors: the bare work on the files, and the hashes of records that neither side can leave out.

A verifier makes per record one content hash, one tuple hash and one tree node, a publisher the first two: the tree is
in the snapshot. Nothing is encoded, compared, sorted or gathered. The rows are made beforehand, with the lengths that
the real ones have.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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

    def of_members(self, threads: int) -> None:
        """Content, tuple and node hashes of every shard."""
        self._run(threads, (self._content, self._tuples, self._nodes))

    def of_records(self, threads: int) -> None:
        """Content and tuple hashes of every shard."""
        self._run(threads, (self._content, self._tuples))

    def _run(self, threads: int, kinds: Sequence[Any]) -> None:
        def one(_: int) -> None:
            for rows in kinds:
                sha256_rows(rows)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(one, range(self._shards)))


def _rows(rng: np.random.Generator, records: int, width: int) -> pa.Array:
    return fixed_rows(rng.integers(0, 256, (records, width), dtype=np.uint8))

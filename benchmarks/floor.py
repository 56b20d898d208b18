"""The floors: the bare work on the files, and the hashes of records that neither side can leave out.

A verifier makes per record one content hash, one tuple hash and one tree node, a publisher the first two: the tree is
in the snapshot. Both hash the content digests and the leaves of each shard, and the bytes of the files beside the
shards: a verifier the parts of snapshot and member index, a publisher the source and the index. Nothing is encoded,
decoded from those, compared, sorted or gathered. The rows are made beforehand, with the lengths that the real ones have.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from shardrel.canonical.sha import fixed_rows, sha256_rows

TUPLE_BYTES = 16 + 32 + 32 + 17
NODE_BYTES = 80


@dataclass(frozen=True, slots=True)
class Beside:
    """Bytes of the files that are hashed beside the shards."""

    verifier: int
    publisher: int


class Hashes:
    """Prepared rows of one shard, hashed once a shard."""

    def __init__(self, records: int, content_bytes: int, shards: int, beside: Beside) -> None:
        rng = np.random.default_rng(1)
        self._content = _rows(rng, records, content_bytes)
        self._tuples = _rows(rng, records, TUPLE_BYTES)
        self._nodes = _rows(rng, records, NODE_BYTES)
        self._shards, self._beside = shards, beside
        # Two digests of each record make up those of its shard.
        most = max(beside.verifier, beside.publisher) // shards + 2 * 32 * records
        self._stream = rng.integers(0, 256, most, dtype=np.uint8).data
        self._digests = 2 * 32 * records

    def of_verifier(self, threads: int) -> None:
        """Hashes of every shard."""
        self._run(threads, (self._content, self._tuples, self._nodes), self._beside.verifier)

    def of_publisher(self, threads: int) -> None:
        """The same for the other side."""
        self._run(threads, (self._content, self._tuples), self._beside.publisher)

    def _run(self, threads: int, kinds: Sequence[Any], beside: int) -> None:
        def one(_: int) -> None:
            for rows in kinds:
                sha256_rows(rows)
            sha256(self._stream[: self._digests + beside // self._shards])

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(one, range(self._shards)))


def _rows(rng: np.random.Generator, records: int, width: int) -> pa.Array:
    return fixed_rows(rng.integers(0, 256, (records, width), dtype=np.uint8))

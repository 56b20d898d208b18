"""Member tuples for tests, and slow, obvious references of what is computed from them.

Source: schemas/SPEC.md#member-tuples, #ordered-root
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from shardrel.membership.columns import Members


def members_of(rows: Sequence[tuple[Any, ...]]) -> Members:
    """Members of (sample id, source id, source version, 32 content bytes, split) rows."""
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], [], [], []]
    strings = [pa.array(columns[i], pa.string()) for i in (0, 1, 2, 4)]
    digests = np.frombuffer(b"".join(columns[3]), np.uint8).reshape(len(rows), 32)
    return Members(
        sample_ids=strings[0], source_ids=strings[1], source_versions=strings[2], splits=strings[3], digests=digests
    )


def slow_leaf(row: tuple[Any, ...], schema_digest: bytes) -> bytes:
    """The leaf of one row, as the SPEC writes it."""
    sample, source, version, content, split = row
    origin = b"shardrel/origin\0" + _prefixed(source) + _prefixed(version) + _prefixed(split) + schema_digest
    return hashlib.sha256(b"shardrel/tuple\0\0" + hashlib.sha256(origin).digest() + content + sample.encode()).digest()


def slow_tree(leaves: Sequence[bytes]) -> bytes:
    """The recursive definition of the tree."""
    if len(leaves) == 1:
        return leaves[0]
    left = 1
    while left * 2 < len(leaves):
        left *= 2
    return hashlib.sha256(b"shardrel/node\0\0\0" + slow_tree(leaves[:left]) + slow_tree(leaves[left:])).digest()


def _prefixed(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(8, "little") + data

"""Member tuples as leaves, without a loop over members. Source: schemas/SPEC.md#member-tuples.

A tuple is joined from a few binary columns: what repeats (domain, schema digest, split) is
encoded once for each distinct value and taken by index.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.canonical.sha import Bytes32, fixed_rows, sha256_rows
from shardrel.digest import Domain, domain_hash, u64
from shardrel.membership.columns import Members, plain

# Rows whose joined tuples stay far below the 2^31 bytes of a 32-bit offset.
_JOIN_BYTES = 64 * 1024 * 1024
_FIXED_BYTES = len(Domain.TUPLE.value) + 4 * 8 + 32 + 32


def tuple_leaves(
    sample_ids: Any, source_ids: Any, source_versions: Any, content_digests: Bytes32, splits: Any, schema_digest: bytes
) -> Bytes32:
    """Merkle leaves of member tuples.

    Args:
        sample_ids: String array of n values without nulls, which may be dictionary-encoded.
        source_ids: The same.
        source_versions: The same.
        content_digests: Shape (n, 32), uint8.
        splits: As the ids.
        schema_digest: 32 raw bytes, the same for every member.

    Returns:
        Shape (n, 32), uint8: ``H(tuple, tuple)`` in the order of the members.
    """
    n = len(content_digests)
    out = np.empty((n, 32), np.uint8)
    columns = [sample_ids, source_ids, source_versions, splits]
    step = _rows_a_join(columns, n)
    for at in range(0, n, step):
        ids, sources, versions, parts = [column.slice(at, step) for column in columns]
        joined = pc.binary_join_element_wise(
            pa.scalar(Domain.TUPLE.value, pa.binary()),
            *_prefixed(ids),
            *_prefixed(sources),
            *_prefixed(versions),
            fixed_rows(np.ascontiguousarray(content_digests[at : at + step])),
            *_prefixed(parts.dictionary_encode(), tail=schema_digest),
            pa.scalar(b"", pa.binary()),
        )
        out[at : at + step] = sha256_rows(joined)
    return out


def member_leaves(members: Members, schema_digest: bytes) -> Bytes32:
    """``tuple_leaves`` of member columns."""
    return tuple_leaves(
        members.sample_ids, members.source_ids, members.source_versions, members.digests, members.splits, schema_digest
    )


def member_set_digest(leaves: Bytes32) -> bytes:
    """Digest of one shard's members: its leaves in canonical order of their tuples."""
    return domain_hash(Domain.MEMBER, u64(len(leaves)), np.ascontiguousarray(leaves).reshape(-1).data)


def _prefixed(column: Any, tail: bytes = b"") -> list[Any]:
    """Binary columns that join to ``lp(value) ‖ tail``: one of a dictionary, two of plain values."""
    if pa.types.is_dictionary(column.type):
        words = [u64(len(word)) + word + tail for word in (text.encode() for text in column.dictionary.to_pylist())]
        return [pa.array(words, pa.binary()).take(column.indices)]
    values = plain(column)
    lengths = np.ascontiguousarray(_lengths(values).astype("<u8"))
    return [fixed_rows(lengths.view(np.uint8).reshape(len(values), 8)), values.cast(pa.binary())]


def _lengths(values: Any) -> npt.NDArray[np.int32]:
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)
    return np.diff(offsets)


def _rows_a_join(columns: list[Any], n: int) -> int:
    widest = _FIXED_BYTES + sum(_widest(column) for column in columns) if n else 1
    return max(1, min(_JOIN_BYTES // widest, 1 << 18))


def _widest(column: Any) -> int:
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    return pc.max(pc.binary_length(values)).as_py() or 0

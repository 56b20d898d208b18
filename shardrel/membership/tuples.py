"""Member tuples as leaves, without a loop over members. Source: schemas/SPEC.md#member-tuples.

Where a record comes from repeats, so it is hashed once for each distinct (source, version, split) and
its digest is taken by row.
"""

from functools import reduce
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.canonical.parts import Fixed, Part, constant, digests, strings
from shardrel.canonical.sha import Bytes32, fixed_rows, sha256_long, sha256_rows
from shardrel.canonical.streams import Message
from shardrel.digest import Domain, u64
from shardrel.membership.columns import Members, plain

Codes = npt.NDArray[np.int64]

# Rows whose joined tuples stay far below the 2^31 bytes of a 32-bit offset.
_JOIN_BYTES = 64 * 1024 * 1024
_HEAD_BYTES = len(Domain.TUPLE.value) + 32 + 32
_ORIGIN_BYTES = len(Domain.ORIGIN.value) + 3 * 8 + 32
_MAX_CODE = 1 << 62


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
        Shape (n, 32), uint8, in the order of the members.
    """
    n = len(content_digests)
    step = _rows_a_join(_HEAD_BYTES + _widest(sample_ids)) if n else 1
    leaves = [np.empty((0, 32), np.uint8)]
    for at in range(0, n, step):
        ids, sources, versions, names = [c.slice(at, step) for c in (sample_ids, source_ids, source_versions, splits)]
        rows, origin = len(ids), origins((sources, versions, names), schema_digest)
        parts = [
            constant(Domain.TUPLE.value, rows),
            _digests(origin, rows),
            _digests(content_digests[at : at + step], rows),
        ]
        leaves.append(digests([*parts, _text(plain(ids))], rows)[0])
    return leaves[1] if len(leaves) == 2 else np.concatenate(leaves)


def _digests(matrix: Bytes32, rows: int) -> Fixed:
    column = np.ascontiguousarray(matrix).view("V32").reshape(-1)
    return Fixed(column=np.broadcast_to(column, (rows,)))


def _text(values: Any) -> Part:
    _, offsets, data = values.buffers()
    borders = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4)
    return strings(borders, data or pa.py_buffer(b""))


def member_leaves(members: Members, schema_digest: bytes) -> Bytes32:
    """``tuple_leaves`` of member columns."""
    return tuple_leaves(
        members.sample_ids, members.source_ids, members.source_versions, members.digests, members.splits, schema_digest
    )


def member_set_digest(leaves: Bytes32) -> bytes:
    """Digest of some members, as those of one shard: their leaves in canonical order of their tuples."""
    return sha256_long([member_set(leaves)])[0]


def member_set(leaves: Bytes32) -> Message:
    """What ``member_set_digest`` is the SHA-256 of."""
    return Domain.MEMBER.value + u64(len(leaves)), np.ascontiguousarray(leaves).reshape(-1).data


class MemberSet:
    """``member_set_digest`` of ``count`` leaves that come piece by piece."""

    def __init__(self, count: int) -> None:
        self._sha = sha256(Domain.MEMBER.value + u64(count))

    def append(self, leaves: Bytes32) -> None:
        """Add leaves, shape (n, 32), uint8, in canonical order."""
        self._sha.update(np.ascontiguousarray(leaves).reshape(-1).data)

    def digest(self) -> bytes:
        """32 bytes, once all leaves have come."""
        return self._sha.digest()


def origins(columns: tuple[Any, Any, Any], schema_digest: bytes) -> Bytes32:
    """Origin digest of each row.

    Args:
        columns: Source ids, source versions, splits: string arrays without nulls, each plain or dictionary-encoded.
        schema_digest: 32 raw bytes.

    Returns:
        Shape (n, 32), or (1, 32) where all rows have the same.
    """
    folded = [column if pa.types.is_dictionary(column.type) else column.dictionary_encode() for column in columns]
    if all(len(column.dictionary) == 1 for column in folded):
        return _hashed([column.dictionary for column in folded], schema_digest)
    rows, firsts = _distinct(folded)
    distinct = [plain(column.take(pa.array(firsts))) for column in folded]
    digests = _hashed(distinct, schema_digest)
    return digests[rows] if len(digests) > 1 else digests


def _distinct(columns: list[Any]) -> tuple[Codes, Codes]:
    """The number of each row's combination, and one row of each combination."""
    rows = reduce(
        _combined, [(column.indices.to_numpy().astype(np.int64), len(column.dictionary)) for column in columns]
    )[0]
    coded = pa.array(rows).dictionary_encode().indices.to_numpy()
    firsts = np.zeros(int(coded.max()) + 1, np.int64)
    firsts[coded[::-1]] = np.arange(len(coded))[::-1]
    return coded, firsts


def _combined(left: tuple[Codes, int], right: tuple[Codes, int]) -> tuple[Codes, int]:
    """One code for a pair of codes; large ones are numbered anew before they could overflow."""
    (a, many), (b, more) = left, right
    if many * more > _MAX_CODE:
        coded = pa.array(a).dictionary_encode()
        a, many = coded.indices.to_numpy().astype(np.int64), len(coded.dictionary)
    return a * more + b, many * more


def _hashed(distinct: list[Any], schema_digest: bytes) -> Bytes32:
    out = np.empty((len(distinct[0]), 32), np.uint8)
    step = _rows_a_join(_ORIGIN_BYTES + sum(_widest(column) for column in distinct))
    for at in range(0, len(out), step):
        columns = [part for column in distinct for part in _prefixed(column.slice(at, step))]
        domain, tail = (pa.scalar(value, pa.binary()) for value in (Domain.ORIGIN.value, schema_digest))
        out[at : at + step] = sha256_rows(_joined(domain, *columns, tail))
    return out


def _joined(*columns: Any) -> Any:
    return pc.binary_join_element_wise(*columns, pa.scalar(b"", pa.binary()))


def _prefixed(values: Any) -> tuple[Any, Any]:
    """Binary columns that join to ``lp(value)``."""
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)
    lengths = np.ascontiguousarray(np.diff(offsets).astype("<u8"))
    return fixed_rows(lengths.view(np.uint8).reshape(len(values), 8)), values.cast(pa.binary())


def _rows_a_join(widest: int) -> int:
    return max(1, min(_JOIN_BYTES // widest, 1 << 18))


def _widest(column: Any) -> int:
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    return pc.max(pc.binary_length(values)).as_py() or 0

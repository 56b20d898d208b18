"""The member index against what was seen. Source: schemas/SPEC.md#member-index, #verification (9)"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.canonical.sha import Bytes32
from shardrel.errors import ErrorCode
from shardrel.records.snapshot import MemberIndex, Part
from shardrel.trust.sealed_parts import PartsKey
from verifier.arrays import digest_matrix, first_above
from verifier.parts import Fetch, overlapping, read_part, text_column
from verifier.seen import Seen
from verifier.structure import FlawError

Numbers = npt.NDArray[np.uint32]

_SCHEMA = pa.schema(
    [
        pa.field("sample_id", pa.string(), nullable=False),
        pa.field("leaf", pa.binary(32), nullable=False),
        pa.field("shard", pa.uint32(), nullable=False),
        pa.field("row", pa.uint32(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """Entries of a member index, in order."""

    ids: Any
    leaves: Bytes32
    shards: Numbers
    rows: Numbers

    def __len__(self) -> int:
        return len(self.ids)

    def slice(self, start: int, stop: int) -> "Indexed":
        """The entries at [start, stop); nothing is copied."""
        return Indexed(
            ids=self.ids.slice(start, stop - start),
            leaves=self.leaves[start:stop],
            shards=self.shards[start:stop],
            rows=self.rows[start:stop],
        )


def read_range(
    fetch: Fetch, index: MemberIndex, lower: str | None, upper: str | None, parts_key: PartsKey | None = None
) -> Indexed:
    """Entries whose sample ids lie above ``lower`` and not above ``upper``; None is no bound.

    Raises:
        FlawError: ``member-index.mismatch``; a storage or Parquet code for a part's bytes.
    """
    parts = overlapping(index.parts, lower, upper)
    return _concatenated([_within(_read(fetch, part, parts_key), lower, upper) for part in parts])


def mismatches(indexed: Indexed, seen: Seen) -> int:
    """Entries that are not what was seen, both in canonical order.

    A leaf commits to its whole tuple, so equal leaves at equal places are equal members.
    """
    if len(indexed) != len(seen):
        return abs(len(indexed) - len(seen))
    # Leaves as whole words, which takes an eighth of the memory to compare.
    leaves = (np.ascontiguousarray(some).view(np.uint64) for some in (indexed.leaves, seen.leaves))
    pairs = (tuple(leaves), (indexed.shards, seen.shards), (indexed.rows, seen.rows))
    # Whole columns first: that is the usual case.
    if indexed.ids.equals(seen.ids) and all(np.array_equal(have, want) for have, want in pairs):
        return 0
    wrong = pc.not_equal(indexed.ids, seen.ids).to_numpy(zero_copy_only=False)
    wrong = wrong | (indexed.leaves != seen.leaves).any(axis=1)
    return int(np.count_nonzero(wrong | (indexed.shards != seen.shards) | (indexed.rows != seen.rows)))


def proposed_order(indexed: Indexed, seen: Seen) -> npt.NDArray[np.int64] | None:
    """Where, among the seen tuples, the index says that each of its entries lies; None when it cannot be.

    Args:
        seen: As gathered: shard after shard, each from its first row of the range on.
    """
    count = len(seen)
    if len(indexed) != count or not count:
        return None
    firsts = np.flatnonzero(np.concatenate([[True], seen.shards[1:] != seen.shards[:-1]]))
    starts = np.zeros(int(seen.shards[-1]) + 1, np.int64)
    starts[seen.shards[firsts]] = firsts - seen.rows[firsts].astype(np.int64)
    if int(indexed.shards.max()) >= len(starts):
        return None
    order = starts[indexed.shards] + indexed.rows
    return order if int(order.min()) >= 0 and int(order.max()) < count else None


def _read(fetch: Fetch, part: Part, parts_key: PartsKey | None) -> Indexed:
    table = read_part(fetch, part, _SCHEMA, ErrorCode.MEMBER_INDEX, parts_key)
    ids = text_column(table.column(0), ErrorCode.MEMBER_INDEX)
    if ids[-1].as_py() != part.last_sample_id:
        raise FlawError(ErrorCode.MEMBER_INDEX, "a part ends with another sample id than it says")
    return Indexed(
        ids=ids,
        leaves=digest_matrix(table.column(1).combine_chunks()),
        shards=table.column(2).to_numpy(),
        rows=table.column(3).to_numpy(),
    )


def _within(indexed: Indexed, lower: str | None, upper: str | None) -> Indexed:
    start = 0 if lower is None else first_above(indexed.ids, lower)
    stop = len(indexed) if upper is None else first_above(indexed.ids, upper)
    return indexed.slice(start, max(start, stop))


def _concatenated(parts: Sequence[Indexed]) -> Indexed:
    if len(parts) == 1:
        return parts[0]
    none = np.empty(0, np.uint32)
    return Indexed(
        ids=pa.concat_arrays([pa.array([], pa.string()), *(part.ids for part in parts)]),
        leaves=np.concatenate([np.empty((0, 32), np.uint8), *(part.leaves for part in parts)]),
        shards=np.concatenate([none, *(part.shards for part in parts)]),
        rows=np.concatenate([none, *(part.rows for part in parts)]),
    )

"""The member index as one long list, of which only the parts that are asked for are read.

Source: schemas/SPEC.md#member-index
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.canonical.sha import Bytes32
from shardrel.data.reading import PartList
from shardrel.membership.columns import combined, digest_matrix, plain


class IndexList:
    """Entries of a member index by their position in canonical order.

    Args:
        listed: Its parts, which are kept once they are read.
    """

    def __init__(self, listed: PartList) -> None:
        self._parts = listed.parts
        self._ends = list(accumulate(part.records for part in listed.parts))
        self._read = listed.read
        self._tables: dict[int, Any] = {}
        self.count = self._ends[-1]

    def range_of(self, sample_id: str) -> tuple[int, int]:
        """Positions [first, last) of the entries with this sample id; empty where it would stand if there are none."""
        borders = [part.last_sample_id or "" for part in self._parts]
        # Strings compare by code points here, which is the order of their UTF-8 bytes.
        before, behind = bisect_left(borders, sample_id), bisect_right(borders, sample_id)
        return self._position(before, sample_id, "left"), self._position(behind, sample_id, "right")

    def sample_ids(self, first: int, last: int) -> list[str]:
        """Sample ids at [first, last)."""
        return [text for piece in self._pieces(first, last) for text in piece.column("sample_id").to_pylist()]

    def leaves(self, first: int, last: int) -> Bytes32:
        """Leaves at [first, last), shape (n, 32)."""
        none = np.empty((0, 32), np.uint8)
        return np.concatenate([none, *[digest_matrix(piece.column("leaf")) for piece in self._pieces(first, last)]])

    def places(self, first: int, last: int) -> Sequence[tuple[int, int]]:
        """Shard number and row at [first, last)."""
        pieces = self._pieces(first, last)
        return [place for piece in pieces for place in zip(*_numbers(piece), strict=True)]

    def _position(self, part: int, sample_id: str, side: str) -> int:
        if part == len(self._parts):
            return self.count
        ids = plain(combined(self._table(part).column("sample_id")))
        start = self._ends[part] - self._parts[part].records
        return start + int(pc.search_sorted(ids, pa.array([sample_id]), side=side)[0].as_py())

    def _pieces(self, first: int, last: int) -> list[Any]:
        found = []
        for part in range(bisect_right(self._ends, first), len(self._parts)):
            start = self._ends[part] - self._parts[part].records
            if start >= last:
                break
            lower = max(first - start, 0)
            found.append(self._table(part).slice(lower, min(last, self._ends[part]) - start - lower))
        return found

    def _table(self, part: int) -> Any:
        if part not in self._tables:
            self._tables[part] = self._read(self._parts[part])
        return self._tables[part]


def _numbers(piece: Any) -> tuple[list[int], list[int]]:
    return piece.column("shard").to_pylist(), piece.column("row").to_pylist()

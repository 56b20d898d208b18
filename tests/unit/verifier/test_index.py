"""The member index against what was seen, entry by entry."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from verifier.index import Indexed, mismatches, proposed_order
from verifier.seen import Seen

IDS = pa.array(["a", "b", "c"])
LEAVES = np.arange(96, dtype=np.uint8).reshape(3, 32)
SHARDS, ROWS = np.array([0, 1, 0], np.uint32), np.array([0, 0, 1], np.uint32)
INDEXED = Indexed(ids=IDS, leaves=LEAVES, shards=SHARDS, rows=ROWS)
SEEN = Seen(ids=IDS, context=(IDS, IDS, IDS), content=LEAVES, leaves=LEAVES, shards=SHARDS, rows=ROWS)


def test_an_index_that_says_what_was_seen_has_no_mismatch() -> None:
    assert mismatches(INDEXED, SEEN) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ids", pa.array(["a", "x", "c"])),
        ("leaves", np.where(np.arange(96).reshape(3, 32) == 63, 0, LEAVES).astype(np.uint8)),
        ("shards", np.array([0, 0, 0], np.uint32)),
        ("rows", np.array([0, 9, 1], np.uint32)),
    ],
)
def test_each_column_of_the_index_is_compared(name: str, value: Any) -> None:
    assert mismatches(replace(INDEXED, **{name: value}), SEEN) == 1


def test_an_entry_that_is_wrong_in_all_columns_is_one() -> None:
    wrong = Indexed(
        ids=pa.array(["a", "b", "d"]),
        leaves=LEAVES ^ np.array([[0], [0], [1]], np.uint8),
        shards=SHARDS + 0,
        rows=np.array([0, 0, 7], np.uint32),
    )
    assert mismatches(wrong, SEEN) == 1


@pytest.mark.parametrize(("start", "stop"), [(0, 2), (1, 1), (0, 0)])
def test_missing_and_surplus_entries_are_counted(start: int, stop: int) -> None:
    assert mismatches(INDEXED.slice(start, stop), SEEN) == 3 - (stop - start)


def _gathered() -> Seen:
    """The same members as shards hold them: rows 0 and 1 of shard 0, then row 0 of shard 1."""
    order = np.array([0, 2, 1])
    return SEEN.ordered(order)


def test_an_index_proposes_where_its_entries_lie() -> None:
    proposed = proposed_order(INDEXED, _gathered())
    assert proposed is not None
    assert proposed.tolist() == [0, 2, 1]


def test_rows_of_a_range_need_not_begin_at_zero() -> None:
    moved = np.array([70_000, 0, 70_001], np.uint32)
    indexed, seen = replace(INDEXED, rows=moved), replace(SEEN, rows=moved).ordered(np.array([0, 2, 1]))
    proposed = proposed_order(indexed, seen)
    assert proposed is not None
    assert proposed.tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"shards": np.array([0, 2**32 - 1, 0], np.uint32)},
        {"rows": np.array([0, 0, 2**32 - 1], np.uint32)},
        {"shards": np.array([0, 1, 1], np.uint32), "rows": np.array([0, 0, 1], np.uint32)},
    ],
)
def test_an_index_that_points_beyond_what_was_seen_proposes_nothing(wrong: dict[str, Any]) -> None:
    assert proposed_order(replace(INDEXED, **wrong), _gathered()) is None


def test_an_index_of_another_length_proposes_nothing() -> None:
    assert proposed_order(INDEXED.slice(0, 2), _gathered()) is None

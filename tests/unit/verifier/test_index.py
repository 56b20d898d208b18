"""The member index against what was seen, entry by entry."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from verifier.compare import Seen
from verifier.index import Indexed, mismatches

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

"""SHA-256 of many rows against hashlib, on both sides of the border between loop and query."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shardrel.canonical.sha import fixed_rows, sha256_rows


def expected(rows: Any) -> bytes:
    return b"".join(hashlib.sha256(value).digest() for value in rows.to_pylist())


@pytest.mark.parametrize("count", [0, 1, 768, 769, 70_000])
@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_rows_of_any_number_and_length(count: int, kind: Any) -> None:
    rows = pa.array([b"x" * (i % 150) for i in range(count)], kind)
    assert sha256_rows(rows).shape == (count, 32)
    assert sha256_rows(rows).tobytes() == expected(rows)


@pytest.mark.parametrize("count", [100, 1000])
def test_a_slice_is_hashed_by_itself(count: int) -> None:
    rows = pa.array([str(i).encode() for i in range(2000)]).slice(500, count)
    assert sha256_rows(rows).tobytes() == expected(rows)


def test_rows_of_a_matrix() -> None:
    matrix = np.arange(40_000, dtype=np.uint8).reshape(1000, 40)
    assert sha256_rows(fixed_rows(matrix)).tobytes() == expected(pa.array([row.tobytes() for row in matrix]))


def test_threads_do_not_see_each_others_rows() -> None:
    many = [pa.array([f"{n}-{i}".encode() for i in range(1000)]) for n in range(12)]
    with ThreadPoolExecutor(4) as pool:
        hashed = list(pool.map(sha256_rows, many))
    assert [digests.tobytes() for digests in hashed] == [expected(rows) for rows in many]

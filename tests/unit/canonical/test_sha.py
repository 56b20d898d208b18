"""SHA-256 of many rows against hashlib, by every way and on both sides of the borders between them."""

import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shardrel.canonical import sha
from shardrel.canonical.lanes import Column, compiled
from shardrel.canonical.parts import Fixed, Varying, constant, digests
from shardrel.canonical.sha import fixed_rows, sha256_columns, sha256_long, sha256_rows
from shardrel.canonical.streams import Message, Streams


@pytest.fixture(autouse=True, params=["few and query", "lanes"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the machine has no lanes, the second takes the first way too."""
    monkeypatch.setattr(sha, "_LANES", sha._Lanes(1 if request.param == "lanes" else 1 << 62))


def expected(rows: Any) -> bytes:
    return b"".join(hashlib.sha256(value).digest() for value in rows.to_pylist())


@pytest.mark.parametrize("count", [0, 1, 32, 33, 768, 769, 70_000])
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


def test_lanes_are_made_once_after_so_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr("shardrel.canonical.lanes.compiled", lambda: made.append(1) or compiled())
    lanes = sha._Lanes(2000)
    with ThreadPoolExecutor(4) as pool:
        given = list(pool.map(lambda _: lanes.for_rows(500), range(8)))
    assert made == [1]
    assert None in given
    assert (lanes.for_rows(1) is None) == (compiled() is None)


@pytest.mark.parametrize("expected_rows", [1999, 2000])
def test_lanes_are_made_at_the_first_row_where_they_will_pay(
    monkeypatch: pytest.MonkeyPatch, expected_rows: int
) -> None:
    made = []
    monkeypatch.setattr("shardrel.canonical.lanes.compiled", lambda: made.append(1))
    monkeypatch.setattr(sha, "_LANES", sha._Lanes(2000))
    sha.expect_rows(expected_rows)
    sha256_rows(pa.array([b"row"]))
    assert len(made) == (expected_rows >= 2000)
    sha.expect_rows(10_000)  # made is made
    sha256_rows(pa.array([b"row"]))
    assert len(made) == 1


def test_a_thread_that_comes_later_does_not_make_them_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads whose turn at the count is over, and only then look at it."""
    made = []
    monkeypatch.setattr("shardrel.canonical.lanes.compiled", lambda: made.append(1))
    lanes = sha._Lanes(1000)

    class Slow:
        def __enter__(self) -> None:
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()
            both.wait()

    lock, both = threading.Lock(), threading.Barrier(2)
    monkeypatch.setattr(lanes, "_lock", Slow())
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lanes.for_rows, [600, 600]))
    assert made == [1]


def test_rows_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sha, "_LANES", sha._Lanes(3000))
    numbers = np.zeros(8 * 1000, np.uint8)
    digests([constant(b"x", 1000), Fixed(column=numbers.view("<u8"))], 1000)
    assert sha._LANES._left == 2000


def test_columns_are_not_asked_for_before_there_are_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sha, "_LANES", sha._Lanes(1 << 62))
    assert sha256_columns(lambda: pytest.fail("asked for"), 1000) is None


def test_columns_and_their_rows_have_the_same_digests() -> None:
    numbers = np.arange(5000, dtype="<u8").view(np.uint8)
    found = sha256_columns(lambda: [Column(data=numbers, stride=8, width=8, head=b"head")], 5000)
    joined = pa.array([b"head" + i.to_bytes(8, "little") for i in range(5000)])
    assert sha256_rows(joined).tobytes() == expected(joined)
    assert found is None or found[0].tobytes() == expected(joined)


def test_rows_whose_offsets_need_more_than_32_bits(tmp_path: Path) -> None:
    """A slice of long text that lies more than 4 GiB into its buffer, here behind a hole of a file."""
    rows, first, whole = 64, 1 << 32, bytes(range(64)) * 10
    with (tmp_path / "text").open("wb") as file:
        file.seek(first)
        file.write(whole)
    with pa.memory_map(str(tmp_path / "text")) as mapped:
        part = Varying(offsets=first + np.arange(rows + 1, dtype=np.int64) * 10, data=mapped.read_buffer())
    sha256_rows(pa.array([b"one"] * 40))  # makes the lanes, where there are to be any
    found, lengths = digests([constant(b"n", rows), part], rows)
    assert lengths.tolist() == [11] * rows
    assert found.tobytes() == expected(pa.array([b"n" + whole[10 * i : 10 * i + 10] for i in range(rows)]))


@pytest.mark.parametrize(
    "sizes", [(), (5,), (1 << 16,), (1 << 16, 1 << 16), (70_000, 65_535), (70_001, 90_000, 66_000)]
)
def test_long_messages_of_any_number(sizes: tuple[int, ...]) -> None:
    sha256_rows(pa.array([b"one"]))  # from now on it is known how this process hashes
    messages = [(b"head" * n, memoryview(bytes([n]) * size)) for n, size in enumerate(sizes)]
    assert sha256_long(messages) == [hashlib.sha256(head + bytes(body)).digest() for head, body in messages]


def test_messages_that_are_long_enough_are_hashed_two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sha256_rows(pa.array([b"one"]))
    if (made := sha._LANES.streams) is None:
        return
    given, hashed = list[int](), made.digests

    def counted(_: Streams, messages: Sequence[Message]) -> list[bytes]:
        given.append(len(messages))
        return hashed(messages)

    monkeypatch.setattr(Streams, "digests", counted)
    for size in (sha._LONG - 1, sha._LONG):
        sha256_long([(b"", bytes(size)), (b"", bytes(sha._LONG))])
    sha256_long([(b"", bytes(sha._LONG))])
    assert given == [2]

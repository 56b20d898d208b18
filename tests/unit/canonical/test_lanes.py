"""Groups of hashes at once against hashlib, and every reason for which there are none."""

import sys
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.canonical import jit, lanes
from shardrel.canonical.lanes import Column, Lanes, compiled, rows_of, woven
from tests.support.guarded import run, run_guarded

_CPU = Path("/proc/cpuinfo")


@pytest.fixture(scope="module")
def made() -> Lanes | None:
    """The lanes of this machine; without AVX-512 there are none to be tested, and that is what is tested."""
    found = compiled()
    flags = set(_CPU.read_text(encoding="ascii", errors="replace").split()) if _CPU.exists() else set()
    assert (found is not None) == ({"avx512f", "avx512bw", "avx512vl"} <= flags)
    return found


def expected(rows: list[bytes]) -> bytes:
    return b"".join(sha256(row).digest() for row in rows)


def hashed(made: Lanes, rows: list[bytes], before: bytes = b"") -> bytes:
    borders = np.cumsum([len(before), *map(len, rows)]).astype(np.int64)
    order = np.random.default_rng(len(rows)).permutation(len(rows))  # whatever it is, digests keep their places
    return made.of_rows(np.frombuffer(before + b"".join(rows), np.uint8), borders[:-1], borders[1:], order).tobytes()


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 31, 32, 33, 48, 65])
def test_every_length_in_groups_of_every_size(made: Lanes | None, count: int) -> None:
    for size in range(261) if made else ():
        rows = [bytes([i]) * size for i in range(count)]
        assert hashed(made, rows, b"before") == expected(rows)


def test_lengths_that_differ_within_a_group(made: Lanes | None) -> None:
    rng = np.random.default_rng(7)
    for _ in range(50 if made else 0):
        rows = [rng.bytes(int(size)) for size in rng.choice([0, 1, 55, 56, 63, 64, 119, 120, 1000, 5000], 40)]
        assert hashed(made, rows) == expected(rows)


def test_no_rows(made: Lanes | None) -> None:
    if made:
        none = np.empty(0, np.uint8), np.zeros(1, np.int64)
        found = rows_of(made, *none)
        assert found is not None
        assert found.shape == (0, 32)
        assert woven(made, [Column(data=np.empty(0, np.uint8))], 0) is None


# Some widths and heads have loops of their own.
_SIZES = st.integers(0, 140) | st.sampled_from([4, 8, 16, 32, 64])
_HEADS = st.integers(0, lanes.MAX_HEAD) | st.sampled_from([0, 1, 8, 9])


@st.composite
def _columns(draw: st.DrawFn) -> tuple[int, list[Column], list[bytes]]:
    """Rows, their columns, and what they come to."""
    count = draw(st.integers(1, 50))
    columns, rows = [], [b""] * count
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    for kind in draw(st.lists(st.sampled_from(["constant", "fixed", "varying"]), min_size=1, max_size=6)):
        head = rng.bytes(draw(_HEADS))
        present = rng.random(count) < 0.7 if draw(st.booleans()) else None
        if kind == "varying":
            sizes = rng.integers(0, draw(st.integers(1, 200)), count)
            offsets = np.cumsum([draw(_SIZES), *sizes]).astype(np.int32)
            data = np.frombuffer(rng.bytes(int(offsets[-1])), np.uint8)
            column = Column(data=data, offsets=offsets, present=present, head=head)
            values = [data[start:stop].tobytes() for start, stop in pairwise(offsets.tolist())]
        else:
            width = draw(_SIZES)
            stride = 0 if kind == "constant" else width
            data = np.frombuffer(rng.bytes(width if kind == "constant" else width * count), np.uint8)
            column = Column(data=data, stride=stride, width=width, present=present, head=head)
            values = [data[i * stride :][:width].tobytes() for i in range(count)]
        columns.append(column)
        rows = [
            row + (head + value if present is None or present[i] else b"")
            for i, (row, value) in enumerate(zip(rows, values, strict=True))
        ]
    return count, columns, rows


@settings(deadline=None, max_examples=200)
@given(drawn=_columns())
def test_columns_are_hashed_as_the_rows_that_they_come_to(made: Lanes | None, drawn: Any) -> None:
    count, columns, rows = drawn
    assert all(column.inside(count) for column in columns)
    if made:
        sizes = list(map(len, rows))
        assert made.of_columns(columns, count, min(sizes), max(sizes)).tobytes() == expected(rows)
        found = woven(made, columns, count)
        if lanes._even(np.array(sizes), lanes._LEAST):
            assert found is not None
        if found is not None:
            assert found[0].tobytes() == expected(rows)
            assert found[1].tolist() == list(map(len, rows))


def test_many_more_rows_than_are_woven_at_a_time(made: Lanes | None) -> None:
    if made:
        numbers = np.arange(40_001, dtype="<u8")
        found = woven(made, [Column(data=numbers.view(np.uint8), stride=8, width=8, head=b"n")], len(numbers))
        assert found is not None
        assert found[0].tobytes() == expected([b"n" + int(number).to_bytes(8, "little") for number in numbers])


@pytest.mark.parametrize("place", [0, 500, 999])
def test_one_huge_row_among_short_ones_is_left_to_the_other_way(made: Lanes | None, place: int) -> None:
    """The rows of a group take as long as the longest of them."""
    if made:
        sizes = np.full(1000, 100)
        sizes[place] = 1 << 20
        borders = np.concatenate([[0], np.cumsum(sizes)])
        assert rows_of(made, np.zeros(int(borders[-1]), np.uint8), borders) is None
        data = np.zeros(100 * 1000 + 1000, np.uint8)
        sizes[place] = 1000
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        assert woven(made, [Column(data=data, offsets=offsets)], 1000) is not None
        sizes[:] = 10
        sizes[::32] = 7000
        data = np.zeros(int(sizes.sum()), np.uint8)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        assert woven(made, [Column(data=data, offsets=offsets)], 1000) is None


def test_uneven_rows_are_hashed_in_their_order(made: Lanes | None) -> None:
    if made:
        sizes = np.random.default_rng(3).lognormal(6, 1, 2000).astype(np.int64)
        borders = np.concatenate([[0], np.cumsum(sizes)])
        data = np.random.default_rng(4).integers(0, 256, int(borders[-1]), dtype=np.uint8)
        assert not lanes._even(sizes, lanes._SOME)
        found = rows_of(made, data, borders)
        assert found is not None
        assert found.tobytes() == expected([data[a:b].tobytes() for a, b in pairwise(borders.tolist())])


@pytest.mark.parametrize("head", [b"", b"head"])
def test_a_row_that_would_not_fit_into_its_slot_writes_nothing_outside(made: Lanes | None, head: bytes) -> None:
    """Offsets that somebody changes between the look at them and their use, as in a mapped file."""
    if made:
        column = Column(
            data=np.ones(90_010, np.uint8), offsets=np.array([0, 10, 20, 90_000, 90_010], np.int32), head=head
        )
        found = made.of_columns([column], 4, 10, 10 + len(head))
        kept = [head + b"\1" * size for size in (10, 10, 10)]
        assert [row.tobytes() for row in found] == [sha256(row).digest() for row in (*kept[:2], b"", kept[2])]


def test_a_row_that_ends_before_it_begins_is_left_out(made: Lanes | None) -> None:
    """Bytes of other rows would be written before it, and its blocks counted nowhere."""
    if made:
        data, offsets = np.ones(1000, np.uint8), np.array([0, 10, 500, 400, 410], np.int32)
        columns = [Column(data=data[:1], width=1), Column(data=data, offsets=offsets), Column(data=data[:4], width=4)]
        found = made.of_columns(columns, 4, 5, 600)
        assert [row.tobytes() for row in found] == [sha256(b"\1" * (5 + n)).digest() for n in (10, 490, 0, 10)]


def test_rows_are_hashed_beside_others_of_as_many_blocks(made: Lanes | None) -> None:
    """Long and short ones in turn, which would take twice as long as they come."""
    if made:
        sizes = np.tile([10, 500], 3000)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        data = np.random.default_rng(5).integers(0, 256, int(offsets[-1]), dtype=np.uint8)
        found = woven(made, [Column(data=data, offsets=offsets)], len(sizes))
        assert found is not None
        assert found[0].tobytes() == expected([data[a:b].tobytes() for a, b in pairwise(offsets.tolist())])


def test_a_long_row_in_every_group_is_no_reason_to_put_all_together(made: Lanes | None) -> None:
    """Beside each other the long ones take no more than they are."""
    if made:
        sizes = np.full(6400, 10)
        sizes[::32] = 700
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        data = np.random.default_rng(6).integers(0, 256, int(offsets[-1]), dtype=np.uint8)
        found = woven(made, [Column(data=data, offsets=offsets)], len(sizes))
        assert found is not None
        assert found[0].tobytes() == expected([data[a:b].tobytes() for a, b in pairwise(offsets.tolist())])


def test_sizes_near_two_gib_do_not_wrap_around() -> None:
    column = Column(data=np.empty(0, np.uint8), offsets=np.array([0, 2**31 - 5], np.int32), head=b"x" * 64)
    assert column.sizes().tolist() == [2**31 - 5 + 64]


_BYTES = np.arange(100, dtype=np.uint8)


@pytest.mark.parametrize(
    "column",
    [
        Column(data=_BYTES, offsets=np.array([0, 60, 50], np.int32)),
        Column(data=_BYTES, offsets=np.array([-1, 10, 50], np.int32)),
        Column(data=_BYTES, offsets=np.array([0, 10, 101], np.int32)),
        Column(data=_BYTES, offsets=np.array([0, 10], np.int32)),
        Column(data=_BYTES, offsets=np.array([0, 2**31 - 1, -(2**31)], np.int32)),
        Column(data=_BYTES, stride=60, width=41),
        Column(data=_BYTES, width=101),
        Column(data=_BYTES, width=10, head=b"x" * 65),
        Column(data=_BYTES, width=10, present=np.array([True])),
        Column(data=_BYTES, width=10, present=np.array([True, False, True, False])[::2]),
        Column(data=_BYTES, width=10, present=np.array([1, 0])),
        Column(data=_BYTES, offsets=np.array([0, 10, 20])),
        Column(data=_BYTES[::2], width=10),
    ],
)
def test_what_would_be_read_outside_of_a_column_is_left_to_the_other_way(made: Lanes | None, column: Column) -> None:
    assert not column.inside(2)
    assert made is None or woven(made, [column], 2) is None


def test_long_rows_are_left_to_the_other_way(made: Lanes | None) -> None:
    if made:
        data = np.zeros(lanes._LONGEST + 1, np.uint8)
        assert woven(made, [Column(data=data, width=len(data) - 1)], 3) is not None
        assert woven(made, [Column(data=data, width=len(data))], 3) is None


_GUARDED = """
from shardrel.canonical.lanes import Column, compiled, woven
made = compiled()
seen = 0
for size in range(1, 200):
    for data in (middle[:size], middle[-size:]):
        borders = np.array([0, size // 2, size], np.int64)
        halves = [data[: size // 2].tobytes(), data[size // 2 :].tobytes()]
        digests = b"".join(sha256(half).digest() for half in halves)
        order = np.array([1, 0])
        assert made is None or made.of_rows(data, borders[:-1], borders[1:], order).tobytes() == digests
        columns = [
            Column(data=data, offsets=borders.astype(np.int32), head=b"head"),
            Column(data=data, width=size, present=np.array([False, True])),
            *(Column(data=data[-width:], width=width) for width in (4, 8, 16, 32, 64) if width <= size),
            Column(data=data[: size // 2 * 2], stride=size // 2, width=size // 2),
        ]
        last = b"".join(column.data.tobytes() for column in columns[2:-1])
        fixed = [data[: size // 2].tobytes(), data[size // 2 : size // 2 * 2].tobytes()]
        rows = [b"head" + halves[0] + last + fixed[0], b"head" + halves[1] + data.tobytes() + last + fixed[1]]
        found = made and woven(made, columns, 2)
        assert made is None or found is None or found[0].tobytes() == b"".join(sha256(row).digest() for row in rows)
        seen += found is not None
assert made is None or seen > 300
print("done", ctypes.string_at(whole.ctypes.data + 2 * page, 1) if {look} else "")
"""


def test_no_byte_beside_the_data_is_read() -> None:
    """The data ends where memory begins that nobody may read; to read it there ends the process, as the second shows."""
    done = run_guarded(_GUARDED.format(look=False))
    assert (done.returncode, done.stdout.split()) == (0, ["done"])
    assert run_guarded(_GUARDED.format(look=True)).returncode < 0


def test_a_host_that_refuses_to_make_code_gets_none() -> None:
    """PR_SET_MDWE: memory never becomes code in this process; LLVM would end it."""
    code = (
        "import ctypes; refuses = ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0\n"
        "from shardrel.canonical.lanes import compiled\n"
        "print(compiled() if refuses else None)"  # before Linux 6.3 it cannot be asked for
    )
    done = run(code)
    assert (done.returncode, done.stdout.split()) == (0, ["None"])


def test_without_the_package_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    assert compiled() is None


def test_an_old_compiler_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes.lanes_ir, "function", lambda: "define void @f(i8* %old) { ret void }")
    assert compiled() is None


def test_a_compiler_with_other_functions_gives_none() -> None:
    llvm = SimpleNamespace(get_host_cpu_features=lambda: {"avx512f": True, "avx512bw": True, "avx512vl": True})
    assert jit._engine(llvm, lanes._text) is None


def test_another_processor_gives_none() -> None:
    llvm = SimpleNamespace(get_host_cpu_features=lambda: {"avx512f": True, "avx512bw": False, "avx512vl": True})
    assert jit._engine(llvm, lanes._text) is None


@pytest.mark.parametrize("constant", [0, 17, 63])
def test_functions_that_compute_something_else_are_not_used(monkeypatch: pytest.MonkeyPatch, constant: int) -> None:
    wrong = list(lanes.lanes_ir.CONSTANTS)
    wrong[constant] ^= 1
    monkeypatch.setattr(lanes.lanes_ir, "CONSTANTS", wrong)
    assert compiled() is None

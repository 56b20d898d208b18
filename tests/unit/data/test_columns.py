"""Rows gathered from several shards are the rows that Arrow would take, in every form and type."""

import itertools
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from shardrel.canonical.schema import record_schema
from shardrel.data import columns as columns_module
from shardrel.data.columns import Column, Taken, gather, stored_column
from shardrel.data.forms import Form, form_of, to_stored
from shardrel.data.tensors import ragged_of, tensor_of
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.schema import Field

RNG = np.random.default_rng(5)


def lists(count: int, longest: int, dtype: Any) -> list[list[int]]:
    return [RNG.integers(0, 200, RNG.integers(0, longest + 1)).astype(dtype).tolist() for _ in range(count)]


CASES: dict[str, Any] = {
    "uint16 lists": pa.array(lists(50, 30, np.uint16), pa.list_(pa.uint16())),
    "short lists": pa.array(lists(50, 5, np.uint8), pa.list_(pa.uint8())),
    "lists with a null row": pa.array([None, [1, 2], [], *lists(20, 9, np.int64)], pa.list_(pa.int64())),
    "lists with a null element": pa.array([[None], [1, 2], [], *lists(20, 9, np.int64)], pa.list_(pa.int64())),
    "lists of points": pa.array([[[1.5, 2.5]] * n for n in range(9)], pa.list_(pa.list_(pa.float32(), 2))),
    "images": pa.array(RNG.integers(0, 255, (40, 48)).tolist(), pa.list_(pa.uint8(), 48)),
    "deep images": pa.array(
        RNG.integers(0, 255, (9, 3, 4, 2)).tolist(), pa.list_(pa.list_(pa.list_(pa.uint8(), 2), 4), 3)
    ),
    "images with a null": pa.array([None, *RNG.integers(0, 255, (9, 16)).tolist()], pa.list_(pa.uint8(), 16)),
    "fixed bytes": pa.array([bytes([n]) * 20 for n in range(40)], pa.binary(20)),
    "narrow bytes": pa.array([bytes([n]) * 3 for n in range(40)], pa.binary(3)),
    "no bytes": pa.array([b""] * 5, pa.binary(0)),
    "texts": pa.array(["é" * n for n in range(30)]),
    "texts with nulls": pa.array([None if n % 3 else "x" * n for n in range(30)]),
    "bytes": pa.array([bytes(n) for n in range(30)]),
    "numbers": pa.array(range(40), pa.int32()),
    "numbers with nulls": pa.array([None, *range(40)], pa.float64()),
    "flags": pa.array([bool(n % 3) for n in range(40)]),
    "flags with nulls": pa.array([None if n % 4 == 0 else bool(n % 3) for n in range(40)]),
    "halves": pa.array(np.arange(20, dtype=np.float16)),
    "times": pa.array(range(20), pa.timestamp("us", "UTC")),
    "days": pa.array(range(20), pa.date32()),
    "structs": pa.array([{"a": n, "b": str(n)} for n in range(20)]),
    "lists of texts": pa.array([["a"] * n for n in range(20)]),
    "only nulls": pa.nulls(9, pa.list_(pa.uint16())),
    "decimals": pa.array(range(9)).cast(pa.decimal128(22, 2)),
}


def a_field(array: Any) -> Field:
    return record_schema(pa.schema([pa.field("column", array.type)])).fields[0]


def gathered(array: Any, rows: np.ndarray[Any, Any]) -> tuple[Column, Any]:
    """Rows of three shards that a column was cut into, the middle one with an offset, and what Arrow takes."""
    form = form_of(a_field(array))
    cuts = [0, len(array) // 3, len(array) // 2, len(array)]
    parts = []
    for first, last in itertools.pairwise(cuts):
        shard = stored_column(to_stored(array.slice(first, last - first), form), form)
        at = np.flatnonzero((rows >= first) & (rows < last))
        parts.append(Taken(column=shard, rows=rows[at] - first, at=at))
    return gather(parts, len(rows)), array.take(pa.array(rows)).cast(form.arrow)


@pytest.mark.parametrize("name", CASES)
def test_gathered_rows_are_those_that_arrow_takes(name: str) -> None:
    array = CASES[name]
    rows = RNG.integers(0, len(array), 77)
    column, expected = gathered(array, rows)
    assert column.arrow().equals(expected)
    column.arrow().validate(full=True)
    part = column.slice(10, 31)
    assert part.arrow().equals(expected.slice(10, 21))
    part.arrow().validate(full=True)
    assert column.slice(5, 5).arrow().to_pylist() == []


@pytest.mark.parametrize("name", ["uint16 lists", "images", "texts with nulls"])
def test_rows_beyond_a_views_reach_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = RNG.integers(0, len(CASES[name]), 40)
    for piece in (16, 64):  # buffers are cut every 16 bytes; longer rows are copied one by one
        monkeypatch.setattr(columns_module, "_PIECE", piece)
        column, expected = gathered(CASES[name], rows)
        assert column.arrow().equals(expected)


def test_fixed_columns_are_one_tensor() -> None:
    column, expected = gathered(CASES["deep images"], np.array([3, 0, 8]))
    tensor = tensor_of(column, "column")
    assert tensor.shape == (3, 3, 4, 2)
    assert tensor.tolist() == expected.to_pylist()
    assert tensor_of(column.slice(1, 3), "column").data_ptr() == tensor.data_ptr() + 24
    numbers, _ = gathered(CASES["numbers"], np.array([7, 1]))
    assert torch.equal(tensor_of(numbers, "column"), torch.tensor([7, 1], dtype=torch.int32))
    flags, expected = gathered(CASES["flags"], np.array([0, 1]))
    assert tensor_of(flags, "column").tolist() == expected.to_pylist()


def test_ragged_columns_are_elements_and_ends() -> None:
    column, expected = gathered(CASES["uint16 lists"], np.arange(50))
    ragged = ragged_of(column, "column")
    assert [row.tolist() for row in ragged.rows()] == expected.to_pylist()
    assert ragged.rows()[3].untyped_storage().data_ptr() == ragged.values.untyped_storage().data_ptr()
    padded = [(row + [9] * 8)[:8] for row in expected.to_pylist()]
    assert ragged.padded(8, 9).tolist() == padded
    part = ragged_of(column.slice(15, 40).slice(5, 15), "column")
    assert part.padded(8, 9).tolist() == padded[20:30]
    assert [row.tolist() for row in part.nested().unbind()] == expected.to_pylist()[20:30]
    assert part.lengths.tolist() == [len(row) for row in expected.to_pylist()[20:30]]


def test_texts_are_rows_of_bytes() -> None:
    column, expected = gathered(CASES["texts"], np.array([2, 0, 5]))
    rows = ragged_of(column, "column").rows()
    assert [bytes(row.tolist()).decode() for row in rows] == expected.to_pylist()


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("numbers with nulls", tensor_of),
        ("images with a null", tensor_of),
        ("texts", tensor_of),
        ("structs", tensor_of),
        ("lists with a null row", ragged_of),
        ("lists with a null element", ragged_of),
        ("numbers", ragged_of),
        ("lists of texts", ragged_of),
    ],
)
def test_what_is_no_tensor_is_refused(name: str, of: Any) -> None:
    column, _ = gathered(CASES[name], np.arange(len(CASES[name])))
    with pytest.raises(InvalidInputError) as caught:
        of(column, "column")
    assert caught.value.code == ErrorCode.INPUT_COLUMN_TYPE


def test_a_form_travels_between_processes() -> None:
    form = form_of(a_field(CASES["images"]))
    back: Form = pickle.loads(pickle.dumps(form))
    assert (back, back.width) == (form, 48)

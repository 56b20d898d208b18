"""Honest releases at the edges of what is allowed pass: no bound of the verifier refuses them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shardrel.gate.view import read_gate
from shardrel.records.snapshot import Columns
from shardrel.store.memory import MemoryStore
from tests.support.publishing import Publishing, write_source
from tests.support.release_builder import a_world
from verifier.verify import verify_release

COUNT = 1500
COLUMNS = Columns(id="id", source="source", version="version", split="split")


def lists_of(elements: Any, lists: int) -> Any:
    """The elements in lists of equal length."""
    offsets = np.arange(lists + 1, dtype=np.int32) * (len(elements) // lists)
    return pa.ListArray.from_arrays(pa.array(offsets), elements)


def records(payload: Any, *, field_bytes: int = 1) -> Any:
    """Records with that payload, whose tuple fields are as long as asked for and all distinct."""
    numbers = range(len(payload))
    return pa.table(
        {
            "id": [f"{i:06d}" + "i" * min(field_bytes, 1018) for i in numbers],
            "source": ["s" * (field_bytes - 1) + f"{i:06d}" for i in numbers],
            "version": [f"{i:06d}" + "v" * (field_bytes - 6) for i in numbers],
            "split": ["train"] * len(payload),
            "value": payload,
        }
    )


CASES = {
    "parts that are full of long tuple fields": records(pa.array(range(6500), pa.int32()), field_bytes=4090),
    "long tuple fields": records(pa.array(range(COUNT), pa.int32()), field_bytes=4090),
    "empty bytes": records(lists_of(pa.array([b""] * 400_000, pa.binary(0)), 20)),
    "nulls of empty bytes": records(lists_of(pa.array([None] * 400_000, pa.binary(0)), 20)),
    "nulls": records(lists_of(pa.nulls(400_000), 20)),
    "empty lists": records(lists_of(pa.array([[]] * 40_000, pa.list_(pa.int8(), 0)), 20)),
    "small numbers": records(lists_of(pa.array([None, 1] * 200_000, pa.int8()), 20)),
    "wide nulls": records(pa.nulls(COUNT, pa.decimal256(76, 0))),
    "maps": records(pa.array([[("k", b""), ("l", None)]] * COUNT, pa.map_(pa.string(), pa.binary(0)))),
    "structs": records(
        pa.array([{"a": b"", "d": 86_400_000}, None] * COUNT, pa.struct([("a", pa.binary(0)), ("d", pa.date64())]))
    ),
}


@pytest.mark.parametrize("table", CASES.values(), ids=CASES)
def test_a_release_at_the_edge_passes(tmp_path: Path, table: Any) -> None:
    made = Publishing(store=MemoryStore())
    made.init()
    source = write_source(tmp_path / "a.arrow", table)
    snapshot = made.snapshot(source, columns=COLUMNS, token_column=None)
    root = made.publish(snapshot, source).root
    report = verify_release(made.store, root, read_gate(made.store, made.dataset), world=a_world(made)).report
    assert (report.verdict, report.findings, report.records) == ("PASSED", (), table.num_rows)

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.sources import open_source
from tests.support.cases.broken import ipc_file, ipc_stream


def saved(tmp_path: Path, data: bytes) -> Any:
    path = tmp_path / "x.arrow"
    path.write_bytes(data)
    return open_source(path)


@pytest.mark.parametrize("serialise", [ipc_file, ipc_stream])
def test_batches_of_a_file_are_mapped_and_not_copied(tmp_path: Path, serialise: Any) -> None:
    table = pa.table({"n": range(9), "t": ["x" * at for at in range(9)]})
    source = saved(tmp_path, serialise(table))
    before = pa.total_allocated_bytes()

    batches = list(source.batches())

    assert pa.total_allocated_bytes() - before < 1024
    assert pa.Table.from_batches(batches).equals(table)


def test_a_dictionary_that_stands_for_more_is_cut(tmp_path: Path) -> None:
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int8()), pa.array(["y" * 10_000]))
    source = saved(tmp_path, ipc_stream(pa.table({"t": text}).combine_chunks()))

    assert max(batch.num_rows for batch in source.batches(batch_bytes=20_008)) <= 2


def test_text_that_is_not_utf8_is_refused_with_its_row(tmp_path: Path) -> None:
    raw = pa.array([b"a", b"b", b"c", b"\xff"])
    text = pa.Array.from_buffers(pa.string(), 4, raw.buffers())
    source = saved(tmp_path, ipc_file(pa.table({"t": text})))

    with pytest.raises(InvalidInputError) as refusal:
        list(source.batches())
    assert refusal.value.code == ErrorCode.INPUT_UTF8
    assert refusal.value.context == {"path": str(tmp_path / "x.arrow"), "row": 3}


def test_indices_outside_of_a_dictionary_are_refused_with_their_row(tmp_path: Path) -> None:
    indices = pa.array([0, 1, 7], pa.int32())
    text = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)
    source = saved(tmp_path, ipc_stream(pa.table({"t": text})))

    with pytest.raises(InvalidInputError) as refusal:
        list(source.batches())
    assert refusal.value.code == ErrorCode.INPUT_CORRUPT
    assert refusal.value.context["row"] == 2


def test_twin_names_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])

    with pytest.raises(InvalidInputError) as refusal:
        saved(tmp_path, ipc_file(table))
    assert refusal.value.code == ErrorCode.SCHEMA_DUPLICATE_FIELD


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2, 3]})
    for data in (ipc_file(table), ipc_stream(table)):
        for size in range(1, len(data), 7):
            with pytest.raises(InvalidInputError):
                list(saved(tmp_path, data[:size]).batches())


def test_a_file_stays_mapped_no_longer_than_its_batches(tmp_path: Path) -> None:
    """A system has room for some 65,000 mappings, and a dataset may have more files."""
    source = saved(tmp_path, ipc_file(pa.table({"n": range(9)})))
    batches = list(source.batches())
    assert source.is_mapped(batches[0].column(0))
    assert str(source.path) in Path("/proc/self/maps").read_text(encoding="utf-8")
    del batches
    assert source.digest
    assert str(source.path) not in Path("/proc/self/maps").read_text(encoding="utf-8")

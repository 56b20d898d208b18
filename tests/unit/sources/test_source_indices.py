"""Dictionary indices that name no entry, in pages whose checksums are right."""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.sources import open_source
from shardrel.sources.indices import in_bounds


def unchecked(indices: list[int | None], entries: Any) -> Any:
    """A dictionary array, whatever its indices are."""
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), entries, safe=False)


ENTRIES = pa.array(["a", "b"])
GOOD, HIGH, LOW = (unchecked(indices, ENTRIES) for indices in ([0, 1, None], [0, 2, None], [-1, 0, 1]))


@pytest.mark.parametrize("bad", [HIGH, LOW, unchecked([0], ENTRIES.slice(0, 0))], ids=["high", "low", "no entries"])
def test_an_index_is_looked_at_wherever_it_lies(bad: Any) -> None:
    for array in (GOOD, bad):
        offsets = pa.array([0, len(array)], pa.int32())
        keys = pa.array(["k"] * len(array))
        nested = [
            array,
            pa.ListArray.from_arrays(offsets, array),
            pa.StructArray.from_arrays([keys, array], ["a", "b"]),
            pa.MapArray.from_arrays(offsets, keys, array),
            pa.FixedSizeListArray.from_arrays(array, len(array)),
        ]
        assert [in_bounds(one) for one in nested] == [array is GOOD] * len(nested)


def test_arrays_without_a_dictionary_and_nulls_alone_are_in_bounds() -> None:
    assert in_bounds(pa.array([[1], None]))
    assert in_bounds(unchecked([None, None], ENTRIES.slice(0, 0)))


def test_a_parquet_page_whose_index_names_no_entry_is_corrupt(tmp_path: Path) -> None:
    table = pa.table({"c": [f"{'y' * 9000}{i % 5}" for i in range(4000)]})
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="none", store_schema=False)
    data = bytearray(sink.getvalue())
    column = pq.read_metadata(io.BytesIO(bytes(data))).row_group(0).column(0)
    # The last index of the page: three bits a value, packed, of which the upper ones are set.
    data[column.dictionary_page_offset + column.total_compressed_size - 1] |= 0xE0
    path = tmp_path / "x.parquet"
    path.write_bytes(data)
    with pytest.raises(InvalidInputError) as refusal:
        list(open_source(path).batches())
    assert refusal.value.code == ErrorCode.INPUT_CORRUPT

"""What a shard may have at most: an honest publisher stops there, and the verifier knows the same numbers."""

import io
from contextlib import nullcontext

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from publisher import caps
from publisher.gather import _joined
from shardrel.canonical.schema import record_schema
from shardrel.errors import ErrorCode, InvalidInputError
from verifier import shard, structure


def test_publisher_and_verifier_have_the_same_caps() -> None:
    for name in ("MAX_STORED", "MAX_LOGICAL", "MAX_RECORDS", "MAX_IDS"):
        assert getattr(caps, name) == getattr(shard, name)


def test_a_cap_is_reached_and_not_passed() -> None:
    caps.within("records", caps.MAX_RECORDS, caps.MAX_RECORDS)
    with pytest.raises(InvalidInputError) as caught:
        caps.within("records", caps.MAX_RECORDS + 1, caps.MAX_RECORDS)
    assert caught.value.code == ErrorCode.INPUT_INVALID


def test_sample_ids_are_counted_over_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caps, "MAX_IDS", 6)
    group = pa.table({"_shardrel_sample_id": ["abc"]})
    assert len(list(caps.groups_within([group, group]))) == 2
    with pytest.raises(InvalidInputError):
        list(caps.groups_within([group, group, group]))


def test_a_row_group_has_a_cap_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    group = pa.table({"_shardrel_sample_id": ["abc"] * 100})
    monkeypatch.setattr(caps, "MAX_GROUP", group.nbytes)
    assert len(list(caps.groups_within([group, group]))) == 2
    with pytest.raises(InvalidInputError) as caught:
        list(caps.groups_within([pa.concat_tables([group, group]).combine_chunks()]))
    assert caught.value.code == ErrorCode.INPUT_INVALID


def test_what_a_row_group_may_have_is_far_within_what_its_pages_may_have() -> None:
    assert 2 * caps.MAX_GROUP <= structure.MAX_PAGES


def test_more_list_elements_than_offsets_count_are_a_matter_of_more_shards() -> None:
    half = (1 << 30) + 1
    chunk = pa.ListArray.from_arrays(pa.array([0, half], pa.int32()), pa.nulls(half))
    with pytest.raises(InvalidInputError) as caught:
        _joined(pa.table({"many": pa.chunked_array([chunk, chunk])}))
    assert caught.value.code == ErrorCode.INPUT_INVALID


def _nested(shape: str) -> pa.Schema:
    """A column of lists, maps and structs, from the outermost on."""
    kind = pa.int8()
    for letter in reversed(shape):
        kind = {"l": pa.list_(kind), "m": pa.map_(pa.string(), kind), "s": pa.struct([("f", kind)])}[letter]
    return pa.schema([("deep", kind)])


@pytest.mark.parametrize(
    ("shape", "fits"),
    [("l" * 49, True), ("l" * 50, False), ("m" * 49, True), ("m" * 50, False), ("s" * 64, True),
     ("l" * 48 + "ss", True), ("l" * 48 + "sss", False), ("s" + "lm" * 24 + "s", True), ("l" * 49 + "s", False)],
)  # fmt: skip
def test_a_nesting_is_declared_exactly_where_a_reader_can_open_the_shard(shape: str, fits: bool) -> None:
    schema = _nested(shape)
    written = io.BytesIO()
    pq.write_table(schema.empty_table(), written, store_schema=False)
    try:
        pq.ParquetFile(pa.BufferReader(written.getvalue()))
        opened = True
    except OSError:
        opened = False
    outcome = nullcontext() if fits else pytest.raises(InvalidInputError, match=ErrorCode.SCHEMA_UNSUPPORTED.value)
    with outcome:
        caps.nesting_within(record_schema(schema))
    assert opened == fits

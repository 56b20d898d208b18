"""Values that no record may hold, in a shard whose declared facts are made right again."""

from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from shardrel.drills.forge import parquet_bytes
from shardrel.errors import ErrorCode
from shardrel.records.encryption import ShardKey
from shardrel.store.objects import put_record
from tests.support.release_builder import Built, a_release, codes


def with_first_bytes(built: Built, name: str, value: bytes) -> Any:
    """The first shard's table with other bytes as the first value of a text column, valid UTF-8 or not."""
    table = built.shard_table(0)
    place = table.schema.get_field_index(name)
    texts = [text.encode() for text in table.column(name).to_pylist()]
    column = pa.array([value, *texts[1:]], pa.binary()).view(pa.string())
    return table.set_column(place, table.schema.field(place), column)


@pytest.mark.parametrize("name", ["_shardrel_sample_id", "_shardrel_source_id", "_shardrel_split", "text"])
def test_text_that_is_not_utf8(name: str) -> None:
    built = a_release()
    built.put_shard(0, parquet_bytes(with_first_bytes(built, name, b"a\xff")))
    assert ErrorCode.RECORD_UTF8 in codes(built.report())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_shardrel_sample_id", b""),
        ("_shardrel_sample_id", b"a" * 1025),
        ("_shardrel_source_version", b"a" * 4097),
    ],
)
def test_a_tuple_field_that_may_not_be(name: str, value: bytes) -> None:
    built = a_release()
    built.put_shard(0, parquet_bytes(with_first_bytes(built, name, value)))
    assert ErrorCode.RECORD_TUPLE_FIELD in codes(built.report())


@pytest.mark.parametrize("names", [("label", "nothing"), ("score",), ("tokens",)])
def test_text_columns_that_are_none_would_leave_texts_unscreened(names: tuple[str, ...]) -> None:
    built = a_release()
    described = put_record(built.store, replace(built.snapshot, text_columns=names))
    objects = replace(built.release.objects, snapshot=described)
    built.release = replace(built.release, objects=objects, dataset_snapshot=described.digest, text_columns=names)
    report = built.report()
    assert codes(report) == {ErrorCode.SNAPSHOT_INVALID}
    assert [finding.count for finding in report.findings] == [1]


def test_a_key_of_a_shard_without_declared_encryption_is_a_finding() -> None:
    built = a_release()
    built.declare(0, replace(built.release.shards[0], key=ShardKey(wrapped="00", check="00")))
    assert ErrorCode.ENCRYPTION_READER in codes(built.report())

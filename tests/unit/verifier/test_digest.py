"""The digest of a file by the verifier is that of the publisher, for every format; errors name file and row."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from publisher import digest as publisher_digest
from shardrel.errors import ErrorCode, InvalidInputError
from tests.support.publishing import records_table, write_source
from verifier.digest import digest_file


def test_both_digest_a_file_alike_in_every_format(tmp_path: Path) -> None:
    table = records_table(50).drop_columns(["tokens"])
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=7)
    write_source(tmp_path / "a.arrow", table)
    lines = "".join(json.dumps(row) + "\n" for row in table.to_pylist())
    (tmp_path / "a.jsonl").write_text(lines)
    found = [digest_file(tmp_path / name) for name in ("a.parquet", "a.arrow", "a.jsonl")]
    others = [publisher_digest.digest_file(one.path) for one in found]
    assert [(o.records, o.schema_digest, o.logical_digest) for o in found] == [
        (o.records, o.schema_digest, o.logical_digest) for o in others
    ]
    assert found[0].logical_digest == found[1].logical_digest == found[2].logical_digest


def test_a_changed_value_changes_it(tmp_path: Path) -> None:
    one, other = (tmp_path / "a.arrow", tmp_path / "b.arrow")
    write_source(one, pa.table({"a": [1.0, 0.0]}))
    write_source(other, pa.table({"a": [1.0, -0.0]}))
    assert digest_file(one).logical_digest != digest_file(other).logical_digest


def test_an_error_names_the_file(tmp_path: Path) -> None:
    path = write_source(tmp_path / "a.arrow", pa.table({"u": [1]}))
    assert digest_file(path).records == 1
    doubled = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(InvalidInputError) as caught:
        digest_file(write_source(tmp_path / "b.arrow", doubled))
    assert caught.value.code == ErrorCode.SCHEMA_DUPLICATE_FIELD
    assert caught.value.context["path"] == str(tmp_path / "b.arrow")

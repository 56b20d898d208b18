"""Both encoders, the vectors and the slow reference agree on schemas, encodings and digests."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardrel.canonical import json, sha
from shardrel.canonical import schema as publisher_schema
from shardrel.canonical.rows import RowEncoder
from tests.support import reference_rows
from tests.support.tables import dressed_table, tables
from tests.support.vectors import Vector, load_vectors
from verifier import rows, schema
from verifier.leaves import shard_digests
from verifier.physical import shard_schema

# The way of hashing stays the same for all the tables of a test.
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


@pytest.fixture(autouse=True, params=["few", "lanes"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows put together and hashed one by one, and columns hashed sixteen rows at once, where the machine can."""
    monkeypatch.setattr(sha, "_LANES", sha._Lanes(1 if request.param == "lanes" else 1 << 62))
    monkeypatch.setattr(sha, "_FEW_FOR_LANES", 0)
    monkeypatch.setattr(sha, "_LONG", 0)


def _encodings(table: Any) -> list[bytes]:
    found = schema.record_schema(table.schema)
    return [value for batch in table.to_batches() for value in rows.encode(found, batch).to_pylist()]


@pytest.mark.parametrize("vector", load_vectors(), ids=lambda vector: vector.name)
def test_the_verifier_encodes_every_vector(vector: Vector) -> None:
    found = schema.record_schema(vector.table.schema)
    digests = rows.content_digests(found, vector.table).digests
    assert json.encode(found).decode() == vector.record_schema
    assert schema.schema_digest(found) == vector.schema_digest
    assert schema.content_type(found) == vector.content_type
    assert _encodings(vector.table) == vector.encodings
    assert [row.tobytes() for row in digests] == vector.content_digests
    assert shard_digests(vector.content_type, digests, digests)[0] == vector.logical_digest


@settings(deadline=None, max_examples=80, suppress_health_check=_SLOW)
@given(table=tables())
def test_the_verifier_agrees_with_the_reference(table: Any) -> None:
    assert _encodings(table) == reference_rows.encodings(table)
    found = schema.record_schema(table.schema)
    assert [row.tobytes() for row in rows.content_digests(found, table).digests] == reference_rows.content_digests(
        table
    )


@settings(deadline=None, max_examples=80, suppress_health_check=_SLOW)
@given(data=st.data())
def test_both_encoders_agree_whatever_the_clothes(data: st.DataObject) -> None:
    plain = data.draw(tables())
    table = data.draw(dressed_table(plain))
    own, other = schema.record_schema(table.schema), publisher_schema.record_schema(table.schema)
    assert own == other
    assert schema.content_type(own) == publisher_schema.content_type(other)
    assert (
        rows.content_digests(own, table).digests.tobytes() == RowEncoder(other).content_digests(table).digests.tobytes()
    )
    assert _encodings(table) == reference_rows.encodings(plain)


@settings(deadline=None, max_examples=40, suppress_health_check=_SLOW)
@given(table=tables())
def test_both_count_the_same_logical_bytes(table: Any) -> None:
    found = schema.record_schema(table.schema)
    counted = rows.content_digests(found, table).logical_bytes
    assert counted == sum(map(len, _encodings(table)))
    assert counted == RowEncoder(found).content_digests(table).logical_bytes


@settings(deadline=None, max_examples=80, suppress_health_check=_SLOW)
@given(table=tables(max_rows=0))
def test_both_expect_the_same_physical_columns(table: Any) -> None:
    found = schema.record_schema(table.schema)
    other = publisher_schema.physical_schema(found)
    assert pa.schema(list(shard_schema(found))[4:]).equals(other)

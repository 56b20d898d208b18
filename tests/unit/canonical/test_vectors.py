"""The committed vectors are fresh, and the encoder gives their bytes."""

import subprocess
import sys
from pathlib import Path

import pytest

from shardrel.canonical import json
from shardrel.canonical.rows import RowEncoder
from shardrel.canonical.schema import content_type, record_schema, schema_digest
from tests.support.vectors import Vector, load_vectors

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("vector", load_vectors(), ids=lambda vector: vector.name)
def test_the_encoder_gives_the_vector(vector: Vector) -> None:
    schema = record_schema(vector.table.schema)
    assert json.encode(schema).decode() == vector.record_schema
    assert schema_digest(schema) == vector.schema_digest
    assert content_type(schema) == vector.content_type
    assert RowEncoder(schema).encode(vector.table).rows.to_pylist() == vector.encodings
    digests = RowEncoder(schema).content_digests(vector.table).digests
    assert [row.tobytes() for row in digests] == vector.content_digests


def test_the_files_are_what_the_generator_writes() -> None:
    subprocess.run([sys.executable, "fixtures/generate.py", "--check"], cwd=ROOT, check=True)


def test_every_vector_has_rows_or_says_so() -> None:
    assert all(v.encodings or "no rows" in v.name for v in load_vectors())

"""Telling what kind of record some bytes are."""

from pathlib import Path

import pytest

from shardrel.canonical import json
from shardrel.records.kinds import KINDS, kind_of
from shardrel.records.schema import BoolType, Field, RecordSchema

# These lie under names and never under their digests.
NAMED = {"training.shard.gate-state.v1", "training.shard.probe.v1"}


def test_every_kind_that_lies_under_its_digest_has_words() -> None:
    published = {path.name.removesuffix(".schema.json") for path in Path("schemas/records").glob("*.schema.json")}
    assert {kind.__struct_config__.tag for kind in KINDS} == published - NAMED


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PAR1",
        b'{"schema":"training.shard.snapshot.v1"}',
        b'{"schema":"training.shard.snapshot.v9"}',
        b'{"schema":7}',
        b'["training.shard.snapshot.v1"]',
        b"[" * 100_000,
    ],
)
def test_what_is_no_sound_record_has_no_kind(data: bytes) -> None:
    assert kind_of(data) is None


def test_only_canonical_bytes_have_a_kind() -> None:
    record = RecordSchema(fields=(Field(name="ok", nullable=True, type=BoolType(), extension=None),))
    data = json.encode(record)
    assert kind_of(data) is RecordSchema
    assert kind_of(data.replace(b"true", b" true", 1)) is None

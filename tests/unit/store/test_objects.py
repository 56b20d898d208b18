"""Records as objects: none is written that no reader takes, and none is read for as long as somebody claims it to be."""

import pytest

from shardrel.canonical import json
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, FormatError, InvalidInputError, NotFoundError
from shardrel.records.checkpoint import CheckpointManifest
from shardrel.records.descriptor import RECORD_JSON, Descriptor
from shardrel.records.fields import Record
from shardrel.records.schema import Field, IntType, RecordSchema
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_record, put_record


def schema(columns: int) -> RecordSchema:
    """A record that grows with its columns."""
    kind = IntType(bits=8, signed=True)
    return RecordSchema(fields=tuple(Field(name=f"c{at}", nullable=True, type=kind) for at in range(columns)))


def test_a_record_of_more_bytes_than_readers_take_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    store, small = MemoryStore(), schema(2)
    monkeypatch.setattr(RecordSchema, "MAX_BYTES", len(json.encode(small)))
    assert get_record(store, put_record(store, small), RecordSchema) == small
    with pytest.raises(InvalidInputError) as refused:
        put_record(store, schema(3))
    assert refused.value.code == ErrorCode.INPUT_INVALID
    assert len(list(store.list("objects/"))) == 1


@pytest.mark.parametrize(("kind", "most"), [(RecordSchema, 64 << 20), (CheckpointManifest, 1 << 30)])
def test_a_descriptor_that_claims_more_is_refused_unread(kind: type[Record], most: int) -> None:
    sizes = (most, most + 1)
    named = [Descriptor(media_type=RECORD_JSON, digest=digest_of(b""), size=size) for size in sizes]
    with pytest.raises(NotFoundError):
        get_record(MemoryStore(), named[0], kind)
    with pytest.raises(FormatError) as refused:
        get_record(MemoryStore(), named[1], kind)
    assert refused.value.code == ErrorCode.FORMAT_TOO_LARGE

"""Small Parquet objects that unfold to gigabytes, put where a release has its own, and verified. Run as a program.

Peak memory is that of a whole process, so each bomb has one of its own: it prints by how many bytes the peak grew,
and the codes of the report that names the bomb's object.
"""

import io
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from shardrel.records.descriptor import PARQUET
from shardrel.records.snapshot import MemberIndex, Part
from shardrel.store.objects import get_by_digest, get_record, put, put_record, unversioned
from tests.support.process import own_peak
from tests.support.release_builder import Built, a_release

RECORDS = 60_000
ID_BYTES = 30_000
_BATCH = 1000

Write = Callable[[pa.Schema, str], bytes]


def front_coded(schema: pa.Schema, ids: str) -> bytes:
    """Sample ids of 30 kB that share all but their last bytes."""
    sink = io.BytesIO()
    others = [name for name in schema.names if name != ids]
    options: dict[str, Any] = {"use_dictionary": others, "column_encoding": {ids: "DELTA_BYTE_ARRAY"}}
    writer = pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        store_schema=False,
        write_page_checksum=True,
        data_page_size=1 << 30,
        **options,
    )
    for first in range(0, RECORDS, _BATCH):
        names = [f"{at:0{ID_BYTES}d}" for at in range(first, first + _BATCH)]
        writer.write_batch(_batch(schema, ids, names), row_group_size=RECORDS)
    writer.close()
    return sink.getvalue()


def one_dictionary(schema: pa.Schema, ids: str) -> bytes:
    """One sample id of 30 kB in a dictionary that all records share."""
    sink = io.BytesIO()
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(RECORDS, np.int32)), pa.array(["x" * ID_BYTES]))
    columns = [names if field.name == ids else _zeros(field, RECORDS) for field in schema]
    table = pa.table(columns, names=schema.names)
    fields = [pa.field(f.name, c.type, nullable=f.nullable) for f, c in zip(schema, columns, strict=True)]
    table = pa.table(columns, schema=pa.schema(fields))
    pq.write_table(table, sink, compression="zstd", store_schema=False, write_page_checksum=True)
    return sink.getvalue()


def in_shard(built: Built, write: Write) -> str:
    """In place of a shard."""
    schema = pq.read_schema(pa.BufferReader(built.shard_bytes(0)))
    built.put_shard(0, write(schema, schema.names[0]), records=RECORDS)
    return built.release.shards[0].id


def in_snapshot(built: Built, write: Write) -> str:
    """In place of a part of the snapshot."""
    snapshot = built.snapshot
    part = _part(built, snapshot.parts[0], write)
    described = put_record(built.store, replace(snapshot, parts=(part,), records=RECORDS))
    objects = replace(built.release.objects, snapshot=described)
    built.release = replace(built.release, objects=objects, dataset_snapshot=described.digest)
    return described.digest


def in_index(built: Built, write: Write) -> str:
    """In place of a part of the member index."""
    index = get_record(built.store, built.release.objects.member_index, MemberIndex)
    part = _part(built, index.parts[0], write)
    described = unversioned(put_record(built.store, replace(index, parts=(part,), records=RECORDS)))
    built.release = replace(built.release, objects=replace(built.release.objects, member_index=described))
    return described.digest


def _part(built: Built, part: Part, write: Write) -> Part:
    schema = pq.read_schema(pa.BufferReader(get_by_digest(built.store, part.object.digest)))
    data = write(schema, schema.names[0])
    return replace(part, object=unversioned(put(built.store, data, PARQUET)[0]), records=RECORDS)


def _batch(schema: pa.Schema, ids: str, names: list[str]) -> pa.RecordBatch:
    columns = [pa.array(names) if field.name == ids else _zeros(field, len(names)) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _zeros(field: pa.Field, count: int) -> pa.Array:
    if pa.types.is_fixed_size_binary(field.type):
        return pa.array([bytes(field.type.byte_width)] * count, field.type)
    if pa.types.is_string(field.type):
        return pa.array(["0"] * count)
    return pa.nulls(count, field.type) if field.nullable else pa.array([0] * count, field.type)


PLACES = {"shard": in_shard, "snapshot": in_snapshot, "index": in_index}
WRITERS: dict[str, Write] = {"front-coded": front_coded, "dictionary": one_dictionary}


def main(place: str, writer: str) -> None:
    """Make the bomb, then verify."""
    built = a_release()
    subject = PLACES[place](built, WRITERS[writer])
    root = built.seal()
    before = own_peak()
    found = {finding.code for finding in built.verified(root).report.findings if finding.subject == subject}
    print(own_peak() - before, *sorted(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

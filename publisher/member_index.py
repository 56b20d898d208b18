"""Member index: all released tuples in canonical order, each with shard and row.

Source: schemas/SPEC.md#member-index
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from shardrel.digest import Digest
from shardrel.membership.columns import Members
from shardrel.records.descriptor import PARQUET
from shardrel.records.snapshot import MemberIndex, Part
from shardrel.store.objects import put, unversioned
from shardrel.store.port import Store

PART_BYTES = 64 * 1024 * 1024
PART_RECORDS = 262_144

_DICTIONARIES = ["source_id", "source_version", "split"]
_ENCODINGS = {"sample_id": "DELTA_BYTE_ARRAY", "shard": "BYTE_STREAM_SPLIT", "row": "BYTE_STREAM_SPLIT"}

Numbers = npt.NDArray[np.uint32]


def index_table(members: Members, shards: Numbers, rows: Numbers) -> Any:
    """Columns of the member index for members in canonical order."""
    table = members.to_table()
    for name, numbers in (("shard", shards), ("row", rows)):
        table = table.append_column(pa.field(name, pa.uint32(), nullable=False), pa.array(numbers, pa.uint32()))
    return table


def put_parts(store: Store, table: Any) -> tuple[Part, ...]:
    """Create the parts of a piece of the index, each within its bounds.

    Effects: One object a part by its digest; a crash leaves some of them.
    """
    return tuple(_put_part(store, part, data) for part, data in _parts(table))


def member_index(parts: tuple[Part, ...], ordered_root: Digest) -> MemberIndex:
    """The record that lists the parts."""
    return MemberIndex(ordered_member_tuple_root=ordered_root, parts=parts, records=sum(part.records for part in parts))


def encode_part(table: Any) -> Any:
    """Deterministic Parquet bytes of a part, ``pa.Buffer``."""
    sink = pa.BufferOutputStream()
    encodings = {name: encoding for name, encoding in _ENCODINGS.items() if name in table.column_names}
    pq.write_table(
        table,
        sink,
        row_group_size=PART_RECORDS,
        version="2.6",
        data_page_version="1.0",
        # Digests do not compress.
        compression={name: "NONE" if name == "content_digest" else "ZSTD" for name in table.column_names},
        compression_level={name: 3 for name in table.column_names if name != "content_digest"},
        use_dictionary=_DICTIONARIES,
        column_encoding={**encodings, "content_digest": "PLAIN"},
        write_statistics=False,
        write_page_checksum=True,
        store_schema=False,
    )
    return sink.getvalue()


def _parts(table: Any) -> Iterator[tuple[Any, Any]]:
    """The table and its bytes, halved until a part is within its bounds."""
    if not table.num_rows:
        return
    data = encode_part(table) if table.num_rows <= PART_RECORDS else None
    if data is not None and (len(data) <= PART_BYTES or table.num_rows == 1):
        yield table, data
        return
    half = table.num_rows // 2
    yield from _parts(table.slice(0, half).combine_chunks())
    yield from _parts(table.slice(half).combine_chunks())


def _put_part(store: Store, table: Any, data: Any) -> Part:
    descriptor, _ = put(store, memoryview(data), PARQUET)
    last = table.column("sample_id")[-1].as_py()
    return Part(object=unversioned(descriptor), records=table.num_rows, last_sample_id=last)

"""Member index: the leaf of every released tuple in canonical order, with shard and row.

Source: schemas/SPEC.md#member-index
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from publisher.encryption import encryption_properties
from publisher.sink import encoded
from shardrel.digest import Digest, to_digest
from shardrel.membership.bounds import PART_BYTES, PART_RECORDS
from shardrel.membership.columns import Digests, fixed_digests, plain
from shardrel.records.descriptor import PARQUET
from shardrel.records.snapshot import MemberIndex, Part
from shardrel.store.objects import put, unversioned
from shardrel.store.port import Store
from shardrel.trust.sealed_parts import PartsKey

_ROOM = 1 << 20

_DICTIONARIES = ["source_id", "source_version", "split"]
# Digests do not compress.
_DIGESTS = frozenset(("content_digest", "leaf"))
_ENCODINGS = {"sample_id": "DELTA_LENGTH_BYTE_ARRAY", "shard": "BYTE_STREAM_SPLIT", "row": "BYTE_STREAM_SPLIT"}

Numbers = npt.NDArray[np.uint32]


def index_table(sample_ids: Any, leaves: Digests, shards: Numbers, rows: Numbers) -> Any:
    """Columns of the member index for members in canonical order."""
    columns = {
        "sample_id": plain(sample_ids),
        "leaf": fixed_digests(leaves),
        "shard": pa.array(shards, pa.uint32()),
        "row": pa.array(rows, pa.uint32()),
    }
    fields = [pa.field(name, column.type, nullable=False) for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def encode_parts(table: Any, parts_key: PartsKey | None = None) -> tuple[tuple[Any, Any], ...]:
    """A piece of the index as parts, each within its bounds, with their bytes; encrypted where there is a key."""
    return tuple(_parts(table, parts_key))


def put_parts(store: Store, table: Any, parts_key: PartsKey | None = None) -> tuple[Part, ...]:
    """Create the parts of a piece of the index, each within its bounds; encrypted where there is a key.

    Effects: One object a part by its digest; a crash leaves some of them.
    """
    return put_encoded(store, encode_parts(table, parts_key), parts_key)


def put_encoded(store: Store, parts: Iterable[tuple[Any, Any]], parts_key: PartsKey | None) -> tuple[Part, ...]:
    """Create parts of the index that ``encode_parts`` made with the same key.

    Effects: One object a part by its digest; a crash leaves some of them.
    """
    return tuple(put_part(store, part, data, parts_key) for part, data in parts)


def member_index(parts: tuple[Part, ...], ordered_root: Digest, block_roots: Sequence[bytes]) -> MemberIndex:
    """The record that lists the parts, and the blocks of the ordered tree."""
    return MemberIndex(
        ordered_member_tuple_root=ordered_root,
        block_roots=tuple(map(to_digest, block_roots)),
        parts=parts,
        records=sum(part.records for part in parts),
    )


def encode_part(table: Any, parts_key: PartsKey | None = None) -> Any:
    """Parquet bytes of a part, ``pa.Buffer``: deterministic where it is not encrypted."""
    encryption = None
    if parts_key is not None:
        encryption = encryption_properties(parts_key.data_key, parts_key.aad_prefix(last_sample_id(table)))
    names = table.column_names
    encodings = {name: "PLAIN" if name in _DIGESTS else _ENCODINGS.get(name) for name in names}
    write = partial(
        pq.write_table,
        table,
        row_group_size=PART_RECORDS,
        version="2.6",
        data_page_version="1.0",
        compression={name: "NONE" if name in _DIGESTS else "ZSTD" for name in names},
        compression_level={name: 3 for name in names if name not in _DIGESTS},
        use_dictionary=[name for name in _DICTIONARIES if name in names],
        column_encoding={name: encoding for name, encoding in encodings.items() if encoding},
        write_statistics=False,
        write_page_checksum=True,
        store_schema=False,
        encryption_properties=encryption,
    )
    return encoded(write, table.nbytes + _ROOM)


def _parts(table: Any, parts_key: PartsKey | None) -> Iterator[tuple[Any, Any]]:
    """The table and its bytes, halved until a part is within its bounds."""
    if not table.num_rows:
        return
    data = encode_part(table, parts_key) if table.num_rows <= PART_RECORDS else None
    if data is not None and (len(data) <= PART_BYTES or table.num_rows == 1):
        yield table, data
        return
    half = table.num_rows // 2
    yield from _parts(table.slice(0, half).combine_chunks(), parts_key)
    yield from _parts(table.slice(half).combine_chunks(), parts_key)


def last_sample_id(table: Any) -> str:
    """The upper border of a part's range."""
    return str(table.column("sample_id")[-1].as_py())


def put_part(store: Store, table: Any, data: Any, parts_key: PartsKey | None) -> Part:
    """Create one part of its encoded bytes.

    Effects: One object by its digest.
    """
    descriptor, _ = put(store, memoryview(data), PARQUET)
    last = last_sample_id(table)
    border = last if parts_key is None else parts_key.sealed_border(last)
    return Part(object=unversioned(descriptor), records=table.num_rows, last_sample_id=border)

"""One shard: gather its records, encode them, create the object. Source: schemas/SPEC.md#shards."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.columns import sample_positions
from publisher.encode import encode_shard, reserved_fields
from publisher.partition import shard_id
from publisher.stage import Staged, as_span, rows_by_piece, rows_of
from shardrel.digest import Domain, domain_hash, to_digest, u64
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.membership.columns import combined, plain
from shardrel.membership.tuples import member_set_digest
from shardrel.records.descriptor import PARQUET
from shardrel.records.release import Compression, Serializer, Shard
from shardrel.store.objects import put
from shardrel.store.port import Store

Records = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenShard:
    """A shard that is in the store, and whether it was there before."""

    shard: Shard
    already_present: bool


def gather(staged: Staged, records: Records) -> Any:
    """The records of a shard in the given order, as one table with one chunk a column.

    Raises:
        InvalidInputError: ``input.invalid`` when a column of the shard passes 2 GiB.
    """
    back = np.argsort(records, kind="stable")
    parts = [staged.pieces[piece].take(pa.array(rows)) for piece, rows in rows_by_piece(staged, records[back])]
    table = _joined(parts) if parts else staged.pieces[0].slice(0, 0)
    if len(records) and as_span(back) is None:
        order = np.empty(len(back), np.int64)
        order[back] = np.arange(len(back))
        table = table.take(pa.array(order))
    for number, field in enumerate(reserved_fields()):
        table = table.set_column(number, field, plain(combined(table.column(number))))
    return table


def _joined(parts: list[Any]) -> Any:
    table = pa.concat_tables(parts).combine_chunks()
    if any(column.num_chunks > 1 for column in table.columns):
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "a column of a shard passes 2 GiB: publish with more shards")
    return table


def sample(staged: Staged, by_shard: tuple[Records, ...]) -> Any:
    """The records that decide the column encodings: of the first shard that has any."""
    records = next(records for records in by_shard if len(records))
    return gather(staged, records[sample_positions(len(records))])


def write_shard(
    store: Store,
    staged: Staged,
    records: Records,
    *,
    number: int,
    shards: int,
    content_type: bytes,
    serializer: Serializer,
    compression: Compression,
) -> WrittenShard:
    """Encode and create one shard.

    Effects: One object by its digest; a crash leaves it or nothing.
    """
    data = memoryview(encode_shard(gather(staged, records), serializer, compression))
    descriptor, already = put(store, data, PARQUET)
    logical = domain_hash(
        Domain.STREAM, content_type, u64(len(records)), rows_of(staged.digests, records).reshape(-1).data
    )
    shard = Shard(
        id=shard_id(number, shards),
        media_type=PARQUET,
        digest=descriptor.digest,
        size=descriptor.size,
        object_version=descriptor.object_version,
        logical_digest=to_digest(logical),
        records=len(records),
        tokens=int(staged.tokens.take(records).sum()),
        member_set_digest=to_digest(member_set_digest(rows_of(staged.leaves, records))),
        logical_bytes=int(staged.lengths.take(records).sum()),
        key=None,
    )
    return WrittenShard(shard=shard, already_present=already)

"""What a proof is made from, read from a store. Source: schemas/SPEC.md#proofs"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shardrel.canonical.rows import RowEncoder
from shardrel.data.shards import shard_descriptor
from shardrel.digest import to_digest
from shardrel.errors import ErrorCode, IntegrityError
from shardrel.membership.columns import combined
from shardrel.records.proof import ProvenMember
from shardrel.records.release import Release, Shard
from shardrel.records.schema import RecordSchema
from shardrel.records.snapshot import Part, Snapshot
from shardrel.store.objects import get, get_record
from shardrel.store.port import Store

MAX_PART_BYTES = 64 * 1024 * 1024
MAX_PART_RECORDS = 262_144
_TUPLE_COLUMNS = ("_shardrel_sample_id", "_shardrel_source_id", "_shardrel_source_version", "_shardrel_split")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the objects of a release are opened; an encrypted release has other functions here.

    Attributes:
        part: A part of the snapshot or of the member index, as a table.
        shard: A shard, as an open Parquet file.
    """

    part: Callable[[Part], Any]
    shard: Callable[[Shard], Any]


def plain_reading(store: Store) -> Reading:
    """Objects that lie in the store as they are."""
    return Reading(part=lambda part: _read_part(store, part), shard=lambda shard: _open_shard(store, shard))


def declared_member(snapshot: Snapshot, sample_id: str, reading: Reading) -> ProvenMember | None:
    """The member that the snapshot declares under a sample id."""
    for part in snapshot.parts:
        if (part.last_sample_id or "") >= sample_id:
            table = reading.part(part)
            at = pc.index(combined(table.column("sample_id")).cast(pa.string()), sample_id).as_py()
            return None if at < 0 else _member(table.slice(at, 1).to_pylist()[0])
    return None


def stored_member(store: Store, release: Release, place: tuple[int, int], reading: Reading) -> ProvenMember:
    """The member that lies in a shard's row, its content digest computed anew.

    Raises:
        IntegrityError: ``member-index.mismatch`` where there is no such row; storage and Parquet codes.
    """
    number, row = place
    if number >= len(release.shards):
        raise IntegrityError(ErrorCode.MEMBER_INDEX, "the member index names a shard that the release does not have")
    record = _record(reading.shard(release.shards[number]), row)
    payload = record.drop_columns(list(_TUPLE_COLUMNS))
    encoder = RowEncoder(get_record(store, release.objects.record_schema, RecordSchema))
    content = encoder.content_digests(payload).digests[0].tobytes()
    _, source, version, split = (record.column(name)[0].as_py() for name in _TUPLE_COLUMNS)
    return ProvenMember(source_id=source, source_version=version, content_digest=to_digest(content), split=split)


def _member(row: dict[str, Any]) -> ProvenMember:
    return ProvenMember(
        source_id=row["source_id"],
        source_version=row["source_version"],
        content_digest=to_digest(row["content_digest"]),
        split=row["split"],
    )


def _record(file: Any, row: int) -> Any:
    """One row of an open file, as a table of one record."""
    first = 0
    for group in range(file.metadata.num_row_groups):
        records = file.metadata.row_group(group).num_rows
        if row < first + records:
            return _decoded(partial(file.read_row_group, group)).slice(row - first, 1)
        first += records
    raise IntegrityError(ErrorCode.MEMBER_INDEX, "the member index names a row that the shard does not have")


def _read_part(store: Store, part: Part) -> Any:
    if part.object.size > MAX_PART_BYTES or part.records > MAX_PART_RECORDS:
        raise IntegrityError(ErrorCode.MEMBER_INDEX, "a part is larger than a part may be")
    data = get(store, part.object)
    return _decoded(lambda: pq.read_table(pa.BufferReader(data), page_checksum_verification=True))


def _open_shard(store: Store, shard: Shard) -> Any:
    data = get(store, shard_descriptor(shard))
    return _decoded(lambda: pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True))


def _decoded(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (pa.ArrowException, OSError, ValueError) as err:
        raise IntegrityError(ErrorCode.PARQUET_STRUCTURE, "an object of the release does not decode") from err

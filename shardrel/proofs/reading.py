"""A member as a proof shows it: declared in a snapshot, or found in a shard. Source: schemas/SPEC.md#proofs"""

from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shardrel.canonical.packed import unpacked
from shardrel.canonical.rows import RowEncoder
from shardrel.data.reading import PartList, Reading, decoded
from shardrel.digest import to_digest
from shardrel.errors import ErrorCode, IntegrityError, InvalidInputError
from shardrel.membership.columns import STORED_FIELDS, combined
from shardrel.records.proof import ProvenMember
from shardrel.records.release import Release
from shardrel.records.schema import RecordSchema
from shardrel.store.objects import get_record
from shardrel.store.port import Store


def declared_member(declared: PartList, sample_id: str) -> ProvenMember | None:
    """The member that a snapshot declares under a sample id."""
    for part in declared.parts:
        if (part.last_sample_id or "") >= sample_id:
            table = declared.read(part)
            at = pc.index(combined(table.column("sample_id")).cast(pa.string()), sample_id).as_py()
            return None if at < 0 else _member(table.slice(at, 1).to_pylist()[0])
    return None


def stored_member(store: Store, release: Release, place: tuple[int, int], reading: Reading) -> ProvenMember:
    """The member that lies in a shard's row, its content digest computed anew.

    Raises:
        IntegrityError: ``member-index.mismatch`` where there is no such row; ``record.schema-mismatch``; storage and
            Parquet codes.
    """
    number, row = place
    if number >= len(release.shards):
        raise IntegrityError(ErrorCode.MEMBER_INDEX, "the member index names a shard that the release does not have")
    record = _record(reading.shard(release, release.shards[number]), row)
    schema = get_record(store, release.objects.record_schema, RecordSchema)
    encoder = RowEncoder(schema)
    try:
        record = unpacked(record, schema.fields)
        content = encoder.content_digests(record.drop_columns(list(STORED_FIELDS))).digests[0].tobytes()
        _, source, version, split = (str(record.column(name)[0]) for name in STORED_FIELDS)
    except (KeyError, InvalidInputError, pa.ArrowInvalid) as err:
        raise IntegrityError(ErrorCode.RECORD_SCHEMA, "a record of a shard does not fit the record schema") from err
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
            return decoded(partial(file.read_row_group, group)).slice(row - first, 1)
        first += records
    raise IntegrityError(ErrorCode.MEMBER_INDEX, "the member index names a row that the shard does not have")

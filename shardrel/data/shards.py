"""Decode the checked bytes of a shard. Source: schemas/SPEC.md#shards."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.canonical.packed import unpacked
from shardrel.canonical.schema import logical_arrow_type, physical_schema
from shardrel.data.encryption import open_parquet
from shardrel.data.plan import MENTIONED
from shardrel.errors import ErrorCode, IntegrityError, InvalidInputError
from shardrel.membership.columns import SPLIT_COLUMN
from shardrel.records.descriptor import Descriptor
from shardrel.records.release import Shard
from shardrel.records.schema import Field, RecordSchema
from shardrel.trust.release_keys import ShardLock

_STRETCH = 1 << 20
"""Bytes of records that are decoded at a time."""


def shard_descriptor(shard: Shard) -> Descriptor:
    """The descriptor inside of a root manifest's shard entry."""
    return Descriptor(
        media_type=shard.media_type, digest=shard.digest, size=shard.size, object_version=shard.object_version
    )


def select_fields(schema: RecordSchema, columns: tuple[str, ...]) -> tuple[Field, ...]:
    """The fields of the wanted payload columns.

    Raises:
        InvalidInputError: ``input.no-such-column``; ``input.invalid`` without any.
    """
    if not columns:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "name the columns that batches shall hold")
    known = {field.name: field for field in schema.fields}
    for name in columns:
        if name not in known:
            there = list(known)[:MENTIONED]
            message = f"the release has no column {name!r}; it has: {', '.join(there)}"
            raise InvalidInputError(ErrorCode.INPUT_NO_SUCH_COLUMN, message, column=name, columns=there)
    return tuple(known[name] for name in columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenShard:
    """Decoded columns of one shard.

    Attributes:
        table: The wanted columns by their logical types, all rows of the shard.
        rows: Rows of the split in stored order; null where every row is of the split.
    """

    table: Any
    rows: npt.NDArray[np.int64] | None

    def take(self, indices: npt.NDArray[np.uint32]) -> Any:
        """Rows by their index among the shard's samples of the split."""
        return self.table.take(pa.array(indices if self.rows is None else self.rows[indices]))


def count_split(data: bytes, shard: Shard, split: str | None, lock: ShardLock | None = None) -> int:
    """Samples of a split in a shard's checked bytes.

    Raises:
        IntegrityError: ``parquet.structure``, ``record.count-mismatch``, ``encryption.…``.
    """
    if split is None:
        return _rows(shard, open_parquet(data, lock, shard.id).metadata.num_rows)
    rows = _split_rows(_decode(data, shard, [SPLIT_COLUMN], lock), split)
    return len(rows)


def open_shard(
    data: bytes, shard: Shard, fields: tuple[Field, ...], split: str | None, lock: ShardLock | None = None
) -> OpenShard:
    """Decode wanted columns of a shard's checked bytes, page checksums included.

    Args:
        data: Bytes whose size and digest were checked against the root manifest.
        shard: Its entry in the root manifest.
        fields: The wanted columns.
        split: Null where the release has one split.
        lock: What the shard is encrypted with.

    Raises:
        IntegrityError: ``parquet.structure``, ``record.schema-mismatch``, ``record.count-mismatch``, ``encryption.…``.
    """
    names = [field.name for field in fields]
    table = _decode(data, shard, names if split is None else [*names, SPLIT_COLUMN], lock)
    rows = None if split is None else _split_rows(table, split)
    return OpenShard(table=_logical(table, shard, fields), rows=rows)


def _decode(data: bytes, shard: Shard, names: list[str], lock: ShardLock | None) -> Any:
    file = open_parquet(data, lock, shard.id)
    try:
        # Selecting leaf by leaf would take "a.b" for a field of a struct "a"; whole columns by number don't.
        table = _read(file, _leaves(file, names), _STRETCH * shard.records // max(1, shard.logical_bytes))
        table = table.combine_chunks().select(names)
    except (pa.ArrowException, OSError, KeyError) as err:
        raise IntegrityError(ErrorCode.PARQUET_STRUCTURE, "a shard can't be decoded", shard=shard.id) from err
    _rows(shard, table.num_rows)
    return table


def _read(file: Any, columns: list[str], rows: int) -> Any:
    """Some rows at a time: decoding a whole shard at once touches so much memory that half its time goes to the kernel."""
    batches = list(file.iter_batches(batch_size=min(max(1, rows), 1 << 16), columns=columns, use_threads=False))
    return pa.Table.from_batches(batches) if batches else file.read(columns=columns, use_threads=False)


def _leaves(file: Any, names: list[str]) -> list[str]:
    schema = file.metadata.schema
    paths = [schema.column(index).path for index in range(len(schema))]
    return [path for path in paths if path in names or any(path.startswith(name + ".") for name in names)]


def _rows(shard: Shard, rows: int) -> int:
    if rows != shard.records:
        raise IntegrityError(
            ErrorCode.RECORD_COUNT,
            "a shard holds another number of records than its root manifest says",
            shard=shard.id,
            records=rows,
            expected=shard.records,
        )
    return rows


def _split_rows(table: Any, split: str) -> npt.NDArray[np.int64]:
    mask = pc.equal(table.column(SPLIT_COLUMN), split).to_numpy(zero_copy_only=False)
    return np.flatnonzero(mask).astype(np.int64)


def _logical(table: Any, shard: Shard, fields: tuple[Field, ...]) -> Any:
    try:
        table = unpacked(table, fields)
    except pa.ArrowException as err:
        raise _misfit(shard) from err
    columns = []
    for field, physical in zip(fields, physical_schema(RecordSchema(fields=fields)), strict=True):
        column = table.column(field.name)
        try:
            columns.append(_strict(column, physical.type).cast(logical_arrow_type(field)))
        except pa.ArrowException as err:
            raise _misfit(shard) from err
    return pa.table(columns, names=[field.name for field in fields])


def _misfit(shard: Shard) -> IntegrityError:
    return IntegrityError(ErrorCode.RECORD_SCHEMA, "a column of a shard does not fit the record schema", shard=shard.id)


def _strict(column: Any, physical: Any) -> Any:
    """A lenient cast would read a string as a number; only the declared type passes."""
    if not column.type.equals(physical):
        raise pa.ArrowInvalid("another physical type")
    return column

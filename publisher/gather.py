"""A shard's records in canonical order, row group by row group. Source: schemas/SPEC.md#shards."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.encode import reserved_fields
from publisher.scatter import Scattered
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.membership.columns import combined, plain

Records = npt.NDArray[np.int64]

# Dictionaries of origins that stay far below the size at which a writer gives a dictionary up.
_FOLDED_BYTES = 64 * 1024


def row_groups(scattered: Scattered, shard: int, records: Records, group_records: int) -> Iterator[Any]:
    """The records of a shard as tables of a row group each, with one chunk a column; one empty table of none.

    Args:
        scattered: All records.
        shard: Its number.
        records: Its record numbers in canonical order.
        group_records: Records of a row group.

    Raises:
        InvalidInputError: ``input.invalid`` when a column of a row group, or of a shard whose source is not
            in canonical order, passes 2 GiB.
    """
    parts = scattered.parts(shard)
    order = _places(records)
    table = _folded(pa.concat_tables(parts) if parts else scattered.empty)
    if order is not None:
        table = _joined(table)
    for at in range(0, max(len(records), 1), group_records):
        if order is None:
            yield _dressed(_joined(table.slice(at, group_records)))
        else:
            yield _dressed(table.take(pa.array(order[at : at + group_records])))


def some_records(scattered: Scattered, shard: int, records: Records, chosen: Records) -> Any:
    """A few records of a shard, by their places in canonical order, as one table of plain columns."""
    order = _places(records)
    places = chosen if order is None else order.take(chosen)
    back = np.argsort(places, kind="stable")
    parts = scattered.some(shard, places.take(back))
    table = _joined(pa.concat_tables(parts)).take(pa.array(np.argsort(back, kind="stable")))
    for number, field in enumerate(reserved_fields()):
        table = table.set_column(number, field, plain(combined(table.column(number))))
    return table


def _places(records: Records) -> Records | None:
    """For each record its place among the shard's records in the order of the source; None where they grow."""
    if (np.diff(records) > 0).all():
        return None
    places = np.empty(len(records), np.int64)
    places[np.argsort(records, kind="stable")] = np.arange(len(records))
    return places


def _joined(table: Any) -> Any:
    many = "a column of a shard passes 2 GiB or 2^31 elements: publish with more shards"
    try:
        table = table.combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as err:  # lists whose elements no 32-bit offset counts
        raise InvalidInputError(ErrorCode.INPUT_INVALID, many) from err
    if any(column.num_chunks > 1 for column in table.columns):
        raise InvalidInputError(ErrorCode.INPUT_INVALID, many)
    return table


def _folded(table: Any) -> Any:
    """Origins keep dictionaries only where these are small."""
    for number, field in enumerate(reserved_fields()):
        column = table.column(number)
        if pa.types.is_dictionary(column.type) and _dictionary_bytes(column.chunks) > _FOLDED_BYTES:
            table = table.set_column(number, field, column.cast(pa.string()))
    return table


def _dictionary_bytes(chunks: Sequence[Any]) -> int:
    """Bytes of all dictionaries, where neighbours share one often."""
    size, last = 0, None
    for chunk in chunks:
        if last is None or not chunk.dictionary.equals(last):
            last = chunk.dictionary
            size += last.nbytes
    return size


def _dressed(table: Any) -> Any:
    """Reserved columns under their names; a dictionary is in order of first appearance, as a writer would make it."""
    for number, field in enumerate(reserved_fields()):
        column = table.column(number)
        array = column.chunk(0) if column.num_chunks else pa.array([], pa.string())
        folded = _canonical(array) if pa.types.is_dictionary(array.type) and len(array) else plain(array)
        table = table.set_column(number, field.with_type(folded.type), folded)
    return table


def _canonical(array: Any) -> Any:
    if len(array.dictionary) == 1:
        return array
    seen = array.indices.dictionary_encode()
    return pa.DictionaryArray.from_arrays(seen.indices, array.dictionary.take(seen.dictionary))

"""Parts of a snapshot: sorted tuples cut into bounded Parquet objects. Source: schemas/SPEC.md#snapshot.

Where a part ends depends on the tuples alone, so the same membership has the same parts.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.member_index import encode_part
from shardrel.membership.bounds import PART_RECORDS
from shardrel.membership.columns import FIELDS, from_table
from shardrel.trust.sealed_parts import PartsKey

# Plain bytes of the tuples in a part; encoded they stay below the 64 MiB of an object.
PART_PLAIN_BYTES = 48 * 1024 * 1024
_DIGEST_BYTES = 32
_OFFSET_BYTES = 4


def cut_parts(
    tables: Iterable[Any], *, part_records: int = PART_RECORDS, plain_bytes: int = PART_PLAIN_BYTES
) -> Iterator[Any]:
    """Cut sorted tables, which follow each other, into tables of a part each.

    A part ends before the tuple that would be one too many, or that would take it over ``plain_bytes``.
    """
    held: list[Any] = []
    rows = size = 0
    for table in tables:
        ends = np.cumsum(_plain_sizes(table))
        start = 0
        while start < table.num_rows:
            before = int(ends[start - 1]) if start else 0
            stop = min(start + part_records - rows, int(np.searchsorted(ends, before + plain_bytes - size, "right")))
            stop = max(stop, start if rows else start + 1)
            if stop == start:
                yield pa.concat_tables(held)
                held, rows, size = [], 0, 0
                continue
            held.append(table.slice(start, stop - start))
            rows, size = rows + stop - start, size + int(ends[stop - 1]) - before
            start = stop
    if rows:
        yield pa.concat_tables(held)


def part_bytes(table: Any, parts_key: PartsKey | None = None) -> Any:
    """Parquet bytes of a part, ``pa.Buffer``: the tuple's columns, none null; deterministic where not encrypted."""
    return encode_part(from_table(table.combine_chunks()).to_table(), parts_key)


def _plain_sizes(table: Any) -> npt.NDArray[np.int64]:
    sizes = np.full(table.num_rows, _DIGEST_BYTES + len(FIELDS) * _OFFSET_BYTES, np.int64)
    for name in FIELDS:
        sizes += pc.binary_length(table.column(name)).to_numpy().astype(np.int64)
    return sizes

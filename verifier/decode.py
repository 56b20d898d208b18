"""Records of a checked Parquet object, batch by batch in bounded memory. Source: schemas/SPEC.md#verification"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shardrel.errors import ErrorCode
from shardrel.sources.indices import has_dictionary, in_bounds
from verifier.layout import weight
from verifier.structure import FlawError, Opened

BATCH_BYTES = 32 * 1024 * 1024
BATCH_RECORDS = 262_144
# What decoding may exceed the declared bytes by before it stops; a smaller excess is a finding all the same.
SLACK_BYTES = 16 * 1024 * 1024


def batches(data: bytes, file: Opened, *, unfolded_bytes: int) -> Iterator[pa.RecordBatch]:
    """Decode an object that ``structure.open_file`` has passed.

    Byte columns with dictionary pages are read as dictionaries, so that a small dictionary of huge values
    costs no memory before its unfolded size is known to be within ``unfolded_bytes``.

    Raises:
        FlawError: ``parquet.structure``, ``parquet.expansion``.
    """
    metadata = file.metadata
    reader = open_again(data, dictionary_columns(metadata), file.decryption)
    unfolded = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for batch in _group(reader, number, _batch_records(group)):
            for column in batch.columns:
                check_indices(column)
            unfolded += sum(weight(column) - 9 * len(column) for column in batch.columns if has_dictionary(column.type))
            if unfolded > unfolded_bytes + SLACK_BYTES:
                raise FlawError(ErrorCode.PARQUET_EXPANSION, "dictionary values expand to more than the declared bytes")
            yield batch


def check_indices(values: Any) -> None:
    """Every index of a dictionary names one of its entries.

    Raises:
        FlawError: ``parquet.structure``.
    """
    if not in_bounds(values):
        raise FlawError(ErrorCode.PARQUET_STRUCTURE, "an index names no entry of its dictionary")


def open_again(data: bytes, dictionaries: list[str], decryption: Any) -> Any:
    """The file with these byte columns read as dictionaries."""
    return pq.ParquetFile(
        pa.BufferReader(data),
        read_dictionary=dictionaries,
        decryption_properties=decryption,
        page_checksum_verification=False,
    )


def _group(reader: Any, number: int, records: int) -> Iterator[pa.RecordBatch]:
    source = reader.iter_batches(batch_size=records, row_groups=[number], use_threads=False)
    while True:
        try:
            batch = next(source, None)
        except (pa.ArrowException, OSError, ValueError) as err:
            raise FlawError(ErrorCode.PARQUET_STRUCTURE, "a page does not decode") from err
        if batch is None:
            return
        yield batch


def _batch_records(group: Any) -> int:
    size = sum(group.column(i).total_uncompressed_size for i in range(group.num_columns))
    return int(max(1, min(BATCH_RECORDS, BATCH_BYTES * max(group.num_rows, 1) // max(size, 1))))


def dictionary_columns(metadata: Any) -> list[str]:
    """Paths of the byte columns that have a dictionary page in any row group."""
    return [
        metadata.schema.column(i).path
        for i in range(metadata.num_columns)
        if metadata.schema.column(i).physical_type == "BYTE_ARRAY"
        and any(metadata.row_group(g).column(i).has_dictionary_page for g in range(metadata.num_row_groups))
    ]

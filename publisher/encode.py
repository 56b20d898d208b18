"""One shard's records as Parquet bytes, a pure function of records and serializer.

Source: schemas/SPEC.md#shards
"""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from publisher.sink import encoded
from shardrel.membership.columns import STORED_FIELDS
from shardrel.records.release import ColumnEncoding, Compression, Serializer

Groups = Callable[[], Iterable[Any]]


def reserved_fields() -> list[Any]:
    """The columns that stand before the payload."""
    return [pa.field(name, pa.string(), nullable=False) for name in STORED_FIELDS]


def serializer_of(columns: tuple[ColumnEncoding, ...], row_group_records: int) -> Serializer:
    """Everything that decides the bytes, for the root manifest."""
    return Serializer(
        name="shardrel-parquet",
        version=1,
        library="pyarrow",
        library_version=pa.__version__,
        format_version="2.6",
        data_page_version="1.0",
        page_checksums=True,
        row_group_records=row_group_records,
        columns=columns,
    )


def encode_shard(
    groups: Groups, serializer: Serializer, compression: Compression, room: int = 0, encryption: Any = None
) -> Any:
    """Parquet bytes of a shard.

    Args:
        groups: Begins with the tables of a row group each, at least one, all full but the last: reserved columns, then
            the payload in physical types, in canonical order. A reserved column may come as a dictionary in the order of first
            appearance; its bytes are those of the plain column.
        serializer: Of the release.
        compression: Of the release.
        room: Bytes that will most likely do.
        encryption: ``FileEncryptionProperties`` of the shard; None leaves it plain.

    Returns:
        ``pa.Buffer``.
    """

    def write(sink: Any) -> None:
        writer = None
        for group in groups():
            writer = writer or _writer(sink, group.schema, serializer, compression, encryption)
            writer.write_table(group, row_group_size=serializer.row_group_records)
        assert writer is not None  # a shard without records is one empty row group
        writer.close()

    return encoded(write, room)


def _writer(sink: Any, schema: Any, serializer: Serializer, compression: Compression, encryption: Any) -> Any:
    plain = {column.path: column.encoding for column in serializer.columns if not column.dictionary}
    return pq.ParquetWriter(
        sink,
        schema,
        version=serializer.format_version,
        data_page_version=serializer.data_page_version,
        compression=compression.codec.upper(),
        compression_level=compression.level,
        use_dictionary=[column.path for column in serializer.columns if column.dictionary],
        column_encoding=plain or None,
        write_statistics=False,
        write_page_checksum=serializer.page_checksums,
        store_schema=False,
        encryption_properties=encryption,
    )

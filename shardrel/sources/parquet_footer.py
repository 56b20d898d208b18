"""What of a Parquet footer has to be looked at before pyarrow may look at it.

A column chunk whose size statistics don't fit its schema ends the whole process when pyarrow hands
its metadata to Python, and one of an unknown codec when it is asked for it (both seen with 26.0.1), so
a damaged file could not be refused.
"""

from typing import Any

from shardrel.sources.thrift import ThriftError, read_struct

_ROW_GROUPS, _COLUMNS, _META, _CODEC, _SIZES = 4, 1, 3, 4, 16
# From UNCOMPRESSED to LZ4_RAW.
_CODECS = range(8)
_TEXT_BYTES, _REPETITION, _DEFINITION = 1, 2, 3
Span = tuple[int, int]


def check_columns(footer: bytes, schema: Any) -> None:
    """Refuse size statistics that do not fit the columns, and codecs that the format does not have.

    Args:
        footer: The Thrift structure of the footer.
        schema: ``ParquetSchema`` that pyarrow read from it.

    Raises:
        ThriftError: they do not, or the footer is no footer.
    """
    columns = [schema.column(leaf) for leaf in range(len(schema))]
    for group in _groups(footer):
        chunks = _structs(group.get(_COLUMNS, []))
        if len(chunks) != len(columns):
            raise ThriftError("a row group has another number of columns than the schema")
        for chunk, column in zip(chunks, columns, strict=True):
            meta = _struct(chunk.get(_META, {}))
            _check_sizes(_struct(meta.get(_SIZES, {})), column)
            if meta.get(_CODEC, 0) not in _CODECS:
                raise ThriftError("a column has a codec that the format does not have")


def index_spans(footer: bytes) -> list[Span]:
    """Where the page indexes and Bloom filters of all column chunks lie.

    Raises:
        ThriftError: the footer is no footer.
    """
    return [
        span for group in _groups(footer) for chunk in _structs(group.get(_COLUMNS, [])) for span in _spans_of(chunk)
    ]


def _groups(footer: bytes) -> list[dict[int, Any]]:
    return _structs(read_struct(footer).get(_ROW_GROUPS, []))


def _check_sizes(sizes: dict[int, Any], column: Any) -> None:
    if sizes.get(_TEXT_BYTES) is not None and column.physical_type != "BYTE_ARRAY":
        raise ThriftError("a column that holds no text tells how much text it holds")
    levels = ((_REPETITION, column.max_repetition_level), (_DEFINITION, column.max_definition_level))
    for number, highest in levels:
        histogram = sizes.get(number, [])
        if not isinstance(histogram, list) or len(histogram) not in (0, highest + 1):
            raise ThriftError("a histogram of levels does not fit its column")


def _spans_of(chunk: dict[int, Any]) -> list[Span]:
    meta = _struct(chunk.get(_META, {}))
    pairs = [(chunk.get(4), chunk.get(5)), (chunk.get(6), chunk.get(7)), (meta.get(14), meta.get(15))]
    return [
        (start, start + length)
        for start, length in pairs
        if isinstance(start, int) and isinstance(length, int) and length > 0
    ]


def _structs(value: Any) -> list[dict[int, Any]]:
    if not isinstance(value, list):
        raise ThriftError("a list was expected")
    return [_struct(item) for item in value]


def _struct(value: Any) -> dict[int, Any]:
    if not isinstance(value, dict):
        raise ThriftError("a structure was expected")
    return value

"""Where the bytes of a Parquet file lie: every one must belong to something that the footer names.

Two files glued together open without an error and give the rows of the first under the footer of
the second; bytes that nothing names are the sign of it.
"""

from pathlib import Path
from typing import Any

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.sources.parquet_footer import Span, check_columns, index_spans
from shardrel.sources.source import corrupt, open_binary, truncated
from shardrel.sources.thrift import ThriftError

_MAGIC = b"PAR1"
_ENCRYPTED = b"PARE"
_TAIL = 8


def check_ends(path: Path, size: int) -> None:
    """Magic bytes at both ends and a footer length that fits between them.

    Raises:
        InvalidInputError: ``input.truncated``, ``input.corrupt``; ``encryption.reader`` for an encrypted file.
    """
    with open_binary(path) as file:
        head = file.read(4)
        file.seek(max(size - _TAIL, 0))
        tail = file.read(_TAIL)
    if head == _ENCRYPTED:
        raise InvalidInputError(
            ErrorCode.ENCRYPTION_READER, f"{path} is encrypted; pull the release with its key", path=str(path)
        )
    if head != _MAGIC:
        raise corrupt(path, "it does not begin like a Parquet file")
    if size < len(_MAGIC) + _TAIL:
        raise truncated(path, "there is no footer")
    if tail[4:] != _MAGIC:
        if not tail.strip(b"\0"):
            raise corrupt(path, "zero bytes follow its footer")
        raise truncated(path, "the footer does not end with the magic bytes")
    length = int.from_bytes(tail[:4], "little")
    if not 0 < length <= size - len(_MAGIC) - _TAIL:
        raise corrupt(path, f"its footer claims {length} bytes")


def check_footer(path: Path, size: int, metadata: Any) -> None:
    """The footer is sound enough that asking pyarrow for column chunks can't end the process.

    Raises:
        InvalidInputError: ``input.corrupt``.
    """
    try:
        check_columns(footer_bytes(path, size), metadata.schema)
    except (ThriftError, UnicodeDecodeError) as err:
        raise corrupt(path, "its footer contradicts itself") from err


def check_tiling(path: Path, size: int, metadata: Any) -> None:
    """Column chunks, the indexes and filters that the footer names, and the footer cover the whole file.

    Raises:
        InvalidInputError: ``input.corrupt``.
    """
    footer = footer_start(path, size)
    gaps = _gaps(path, _chunk_spans(metadata), footer)
    if gaps:
        gaps = _gaps(path, sorted(_chunk_spans(metadata) + index_spans(footer_bytes(path, size))), footer)
    for start, end in gaps:
        _check_padding(path, start, end)


def footer_start(path: Path, size: int) -> int:
    """Offset of the first byte of the footer's Thrift structure."""
    with open_binary(path) as file:
        file.seek(size - _TAIL)
        length = int.from_bytes(file.read(4), "little")
    return size - _TAIL - length


def footer_bytes(path: Path, size: int) -> bytes:
    """The footer's Thrift structure."""
    start = footer_start(path, size)
    with open_binary(path) as file:
        file.seek(start)
        return bytes(file.read(size - _TAIL - start))


def _chunk_spans(metadata: Any) -> list[Span]:
    spans = []
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        for leaf in range(group.num_columns):
            chunk = group.column(leaf)
            start, length = chunk.data_page_offset, chunk.total_compressed_size
            if chunk.has_dictionary_page and chunk.dictionary_page_offset:
                # An empty row group may have a dictionary page and no data page, at offset 0.
                start = min(start or chunk.dictionary_page_offset, chunk.dictionary_page_offset)
            if length:
                spans.append((start, start + length))
    return sorted(spans)


def _gaps(path: Path, spans: list[Span], footer: int) -> list[Span]:
    """What no span covers between the first magic and the footer.

    Raises:
        InvalidInputError: ``input.corrupt``: spans overlap or leave the file.
    """
    gaps, at = [], len(_MAGIC)
    for start, end in [*spans, (footer, footer)]:
        if not at <= start <= end <= footer:
            raise corrupt(path, "parts that its footer names overlap or lie outside it")
        if start > at:
            gaps.append((at, start))
        at = end
    return gaps


def _check_padding(path: Path, start: int, end: int) -> None:
    """Writers on block stores align row groups with zeros; anything else in a gap is another file's."""
    with open_binary(path) as file:
        file.seek(start)
        while start < end:
            piece = file.read(min(end - start, 1 << 20))
            if not piece or piece.strip(b"\0"):
                raise corrupt(path, f"nothing in its footer names the bytes from {start} on; are these two files?")
            start += len(piece)

"""What a Parquet object must be before anything in it is decoded. Source: schemas/SPEC.md#verification

Bounds and declared counts are compared with the footer and with every page header, so that a footer
that promises 2^40 rows, a page that expands without end, or a second file glued on is refused unread.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from shardrel.errors import ErrorCode
from shardrel.sources.parquet_footer import check_columns
from shardrel.sources.thrift import ThriftError
from verifier import pages

if TYPE_CHECKING:
    from verifier.encryption import Lock, OpenedFooter

MAGIC = b"PAR1"
ENCRYPTED_MAGIC = b"PARE"
MAX_FOOTER = 16 * 1024 * 1024
FOOTER_SLACK = 1024 * 1024
# Parquet's plain forms against the canonical encoding: at most four bytes for one (int8 lists), plus levels.
EXPANSION = 8
CHUNK_SLACK = 64 * 1024
FILE_SLACK = 1024 * 1024
# A reader holds one page of every column at a time.
MAX_PAGES = 2 << 30


PageKinds = tuple[tuple[int, int | None], ...]


class FlawError(Exception):
    """An object cannot be decoded; ``code`` and fixed words say why."""

    def __init__(self, code: ErrorCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the manifest declares about one object.

    Attributes:
        uncompressed: Bytes that all pages together may decompress to.
        values: Values that one column chunk may hold.
        pages: Bytes that the largest pages of a row group's columns may decompress to, all together.
    """

    records: int
    uncompressed: int
    values: int
    pages: int = MAX_PAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A file that has passed, with nothing of it decoded.

    Attributes:
        metadata: A ``pyarrow.parquet.FileMetaData``.
        kinds: Of each column chunk, row group by row group: type and encoding of its pages in their order, neighbours
            that are equal counted once.
        decryption: ``FileDecryptionProperties`` of an encrypted file.
    """

    metadata: Any
    decryption: Any = field(default=None, repr=False)
    kinds: tuple[PageKinds, ...]


def limits(records: int, logical_bytes: int, tuple_bytes: int, leaf_columns: int) -> Limits:
    """Bounds that follow from declared numbers; ``tuple_bytes`` is what the unbounded tuple columns may take."""
    slack = FILE_SLACK + CHUNK_SLACK * leaf_columns
    return Limits(
        records=records,
        uncompressed=EXPANSION * logical_bytes + tuple_bytes + slack,
        values=max(records, logical_bytes),
        pages=MAX_PAGES,
    )


def open_file(
    data: bytes, bounds: Limits, expected: pa.Schema, *, checksums: bool, lock: "Lock | None" = None
) -> Opened:
    """Check footer, schema, layout and page headers of a file; nothing is decoded.

    Args:
        data: The whole object.
        bounds: What the manifest declares of it.
        expected: Its physical schema.
        checksums: Whether every page has to have one.
        lock: What it is encrypted with; a plain file is then refused.

    Raises:
        FlawError: ``encryption.plaintext``, ``encryption.aad``, ``parquet.structure``, ``parquet.footer``, ``parquet.expansion``, ``parquet.page-checksum``,
            ``parquet.page-checksum-absent``, ``record.schema-mismatch``, ``schema.int96``, ``record.count-mismatch``.
    """
    footer_start = _footer_start(data, MAGIC if lock is None else ENCRYPTED_MAGIC)
    footer = None if lock is None else lock.footer(data, footer_start)
    decryption = None if lock is None else lock.properties
    try:
        file = pq.ParquetFile(pa.BufferReader(data), decryption_properties=decryption, page_checksum_verification=False)
        metadata, schema = file.metadata, file.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as err:
        raise FlawError(ErrorCode.PARQUET_FOOTER, "the footer does not parse") from err
    _check_schema(file, schema, expected)
    _check_statistics(data[footer_start:-8] if footer is None else footer.plain, file.schema)
    _check_rows(metadata, bounds)
    chunks = list(_chunks(metadata))
    _check_layout(chunks, footer_start)
    _check_bounds(chunks, bounds)
    view = memoryview(data)
    walked = [_check_pages(view, chunk, footer, checksums=checksums) for chunk in chunks]
    _check_largest([chunk.largest for chunk in walked], metadata.num_columns, bounds)
    return Opened(metadata=metadata, kinds=tuple(chunk.kinds for chunk in walked), decryption=decryption)


def _footer_start(data: bytes, magic: bytes) -> int:
    size = len(data)
    if magic == ENCRYPTED_MAGIC and MAGIC in (data[:4], data[-4:]):
        raise FlawError(ErrorCode.ENCRYPTION_PLAINTEXT, "the object is plain, and declared to be encrypted")
    if size < 12 or data[:4] != magic or data[-4:] != magic:
        raise FlawError(ErrorCode.PARQUET_STRUCTURE, "the object does not begin and end as a Parquet file")
    length = int.from_bytes(data[-8:-4], "little")
    if length > MAX_FOOTER or length > size // 4 + FOOTER_SLACK:
        raise FlawError(ErrorCode.PARQUET_FOOTER, "the footer is larger than a footer may be")
    if length > size - 12:
        raise FlawError(ErrorCode.PARQUET_FOOTER, "the footer is larger than the object")
    return size - 8 - length


def _check_schema(file: Any, schema: pa.Schema, expected: pa.Schema) -> None:
    if any(file.schema.column(i).physical_type == "INT96" for i in range(len(file.schema.names))):
        raise FlawError(ErrorCode.SCHEMA_INT96, "a column has the type int96")
    if b"ARROW:schema" in (file.metadata.metadata or {}):
        raise FlawError(ErrorCode.RECORD_SCHEMA, "the file carries an Arrow schema")
    if schema.names != expected.names:
        raise FlawError(ErrorCode.RECORD_SCHEMA, "the columns have other names or another order")
    # Names of fields inside of lists and maps are part of the physical type, hence the metadata check.
    pairs = zip(schema, expected, strict=True)
    wrong = [i for i, (have, want) in enumerate(pairs) if not _same(have, want)]
    if wrong:
        raise FlawError(
            ErrorCode.RECORD_SCHEMA, f"{len(wrong)} columns have another type, the first is column {wrong[0]}"
        )


def _check_statistics(footer: bytes, schema: Any) -> None:
    """Before any column chunk is asked for: pyarrow ends the process over statistics that contradict the schema."""
    try:
        check_columns(footer, schema)
    except (ThriftError, UnicodeDecodeError) as err:
        raise FlawError(ErrorCode.PARQUET_FOOTER, "the footer contradicts itself") from err


def _same(have: pa.Field, want: pa.Field) -> bool:
    return bool(have.nullable == want.nullable and have.type.equals(want.type))


def _check_rows(metadata: Any, bounds: Limits) -> None:
    total = sum(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    if metadata.num_rows != total or total < 0:
        raise FlawError(ErrorCode.PARQUET_FOOTER, "the row groups do not add up to the rows of the footer")
    if total != bounds.records:
        raise FlawError(ErrorCode.RECORD_COUNT, f"the footer has {total} rows, declared are {bounds.records}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    ordinals: tuple[int, int]
    start: int
    length: int
    uncompressed: int
    values: int
    rows: int
    flat: bool
    dictionary: bool
    in_other_file: bool


def _chunks(metadata: Any) -> Iterator[_Chunk]:
    columns = range(metadata.num_columns)
    flat = [metadata.schema.column(i).max_repetition_level == 0 for i in columns]
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for i in columns:
            column = group.column(i)
            # A chunk without values may have no data page; its offset is then written as zero.
            offsets = [column.data_page_offset, column.dictionary_page_offset if column.has_dictionary_page else None]
            yield _Chunk(
                ordinals=(number, i),
                start=min((offset for offset in offsets if offset), default=0),
                length=column.total_compressed_size,
                uncompressed=column.total_uncompressed_size,
                values=column.num_values,
                rows=group.num_rows,
                flat=flat[i],
                dictionary=column.has_dictionary_page,
                in_other_file=bool(column.file_path),
            )


def _check_layout(chunks: list[_Chunk], footer_start: int) -> None:
    """Magic, chunks and footer tile the object: no byte belongs to nothing or to two things."""
    at = len(MAGIC)
    for chunk in chunks:
        if (chunk.length and chunk.start != at) or chunk.length < 0 or chunk.in_other_file:
            raise FlawError(ErrorCode.PARQUET_STRUCTURE, "the column chunks do not follow each other")
        at += chunk.length
    if at != footer_start:
        raise FlawError(ErrorCode.PARQUET_STRUCTURE, "there are bytes that belong to no column chunk")


def _check_bounds(chunks: list[_Chunk], bounds: Limits) -> None:
    if any(chunk.flat and chunk.values != chunk.rows for chunk in chunks):
        raise FlawError(ErrorCode.PARQUET_FOOTER, "a flat column has another number of values than rows")
    if any(not 0 <= chunk.values <= bounds.values for chunk in chunks):
        raise FlawError(ErrorCode.PARQUET_EXPANSION, "a column has more values than the declared bytes allow")
    if sum(chunk.uncompressed for chunk in chunks) > bounds.uncompressed:
        raise FlawError(ErrorCode.PARQUET_EXPANSION, "the pages expand to more than the declared bytes allow")


@dataclass(slots=True)
class _Walked:
    """Sums over the pages of one column chunk; ``largest`` is the largest dictionary and the largest other page."""

    values: int = 0
    uncompressed: int = 0
    dictionary: int = 0
    other: int = 0
    kinds: PageKinds = ()

    @property
    def largest(self) -> int:
        return self.dictionary + self.other

    def add(self, page: pages.Page) -> None:
        self.values += page.values
        self.uncompressed += page.uncompressed
        if page.dictionary:
            self.dictionary = max(self.dictionary, page.uncompressed)
        else:
            self.other = max(self.other, page.uncompressed)
        if self.kinds[-1:] != ((page.kind, page.encoding),):
            self.kinds = (*self.kinds, (page.kind, page.encoding))


def _check_pages(data: memoryview, chunk: _Chunk, footer: "OpenedFooter | None", *, checksums: bool) -> _Walked:
    walked = _Walked()
    try:
        for page in pages.walk(data, chunk.start, chunk.length, _headers(chunk, footer)):
            _check_page(data, page, chunk, checksums=checksums)
            walked.add(page)
    except pages.BrokenPagesError as err:
        raise FlawError(ErrorCode.PARQUET_STRUCTURE, "a page header is broken") from err
    if walked.values != chunk.values:
        raise FlawError(ErrorCode.PARQUET_STRUCTURE, "the pages hold another number of values than the footer says")
    if walked.uncompressed > chunk.uncompressed:
        raise FlawError(ErrorCode.PARQUET_EXPANSION, "the pages expand to more than the footer says")
    return walked


def _headers(chunk: _Chunk, footer: "OpenedFooter | None") -> pages.HeaderReader:
    if footer is None:
        return pages.plain_header
    return footer.headers(*chunk.ordinals, dictionary=chunk.dictionary)


def _check_page(data: memoryview, page: pages.Page, chunk: _Chunk, *, checksums: bool) -> None:
    if checksums and page.crc is None:
        raise FlawError(ErrorCode.PARQUET_PAGE_CHECKSUM_ABSENT, "a page has no checksum")
    if page.dictionary and not chunk.dictionary:
        raise FlawError(ErrorCode.PARQUET_STRUCTURE, "there is a dictionary that the footer does not name")
    # A few bytes of such a page can unfold to any length.
    if page.front_coded:
        raise FlawError(ErrorCode.PARQUET_EXPANSION, "a page is front-coded")
    if not pages.crc_matches(data, page):
        raise FlawError(ErrorCode.PARQUET_PAGE_CHECKSUM, "a page has another checksum than its header says")


def _check_largest(largest: list[int], columns: int, bounds: Limits) -> None:
    """A reader of a row group has one page of each of its columns in memory."""
    for at in range(0, len(largest), columns):
        if sum(largest[at : at + columns]) > bounds.pages:
            raise FlawError(ErrorCode.PARQUET_EXPANSION, "the pages of a row group are larger than pages may be")

"""Page headers of a Parquet column chunk, read without decoding a page.

pyarrow verifies page checksums that are there and says nothing of those that aren't, so the headers are
walked here: a small reader of Thrift's compact protocol, as the Parquet format writes it.
Source: https://github.com/apache/parquet-format (PageHeader), Thrift compact protocol
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 8
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
_NUMBERS = frozenset((_I16, _I32, _I64))
DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3
_FRONT_CODED = 7


class BrokenPagesError(ValueError):
    """The bytes of a column chunk are not a sequence of pages."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page; ``start`` is where its compressed bytes begin.

    Attributes:
        kind: Type of the page, as the format numbers it.
        values: Values that it declares, nulls included; 0 for a dictionary page.
        encoding: Of the values of a data page, as the format numbers it; None for any other page.
        crc: Declared checksum of the compressed bytes, None where there is none.
    """

    start: int
    compressed: int
    uncompressed: int
    kind: int
    values: int
    encoding: int | None
    crc: int | None

    @property
    def dictionary(self) -> bool:
        """Whether it holds the entries that indices name."""
        return self.kind == DICTIONARY_PAGE

    @property
    def front_coded(self) -> bool:
        """Whether its values are written as what differs from the one before (DELTA_BYTE_ARRAY)."""
        return self.encoding == _FRONT_CODED


HeaderReader = Callable[[memoryview, int, int, int], tuple[dict[int, Any], int]]
"""From data, place, end of the chunk and pages before: the fields of the header there, and where the page begins."""


def plain_header(data: memoryview, at: int, end: int, before: int) -> tuple[dict[int, Any], int]:
    """Read a header that is not encrypted."""
    reader = _Reader(data, at, end)
    return reader.struct(0), reader.at


def read_header(plain: bytes) -> dict[int, Any]:
    """Fields of a header that was encrypted; there is nothing behind it."""
    fields, after = plain_header(memoryview(plain), 0, len(plain), 0)
    if after != len(plain):
        raise BrokenPagesError("there are bytes behind a header")
    return fields


def walk(data: memoryview, start: int, length: int, headers: HeaderReader = plain_header) -> Iterator[Page]:
    """Pages of the chunk that lies at ``start`` and has ``length`` bytes.

    Raises:
        BrokenPagesError: The headers do not parse or the pages do not fill the chunk exactly.
    """
    end = start + length
    at, before = start, 0
    while at < end:
        page = _page(*headers(data, at, end, before))
        before += 1
        at = page.start + page.compressed
        if at > end:
            raise BrokenPagesError("a page reaches beyond its chunk")
        yield page


def crc_matches(data: memoryview, page: Page) -> bool:
    """Whether the page's bytes have the checksum that it declares."""
    return page.crc is None or zlib.crc32(data[page.start : page.start + page.compressed]) == page.crc & 0xFFFFFFFF


def _page(header: dict[int, Any], start: int) -> Page:
    sizes = (header.get(2), header.get(3))
    if not all(isinstance(size, int) and size >= 0 for size in sizes) or not isinstance(header.get(1), int):
        raise BrokenPagesError("a page header lacks its sizes")
    values, encoding = _data(header)
    crc = header.get(4)
    if values < 0 or not isinstance(crc, int | None):
        raise BrokenPagesError("a page header has a field of another type")
    return Page(start, header[3], header[2], header[1], values, encoding, crc)


def _data(header: dict[int, Any]) -> tuple[int, int | None]:
    """Values and encoding of the one header that a reader goes by: that of the page's type."""
    # Fields of the page header, and of the encoding in the data page header, of both versions.
    fields = {DATA_PAGE: (5, 2), DATA_PAGE_V2: (8, 4)}.get(header[1])
    if fields is None:
        return 0, None
    inner = header.get(fields[0])
    if not isinstance(inner, dict):
        raise BrokenPagesError("a data page lacks its header")
    values, encoding = inner.get(1), inner.get(fields[1])
    if not isinstance(values, int) or not isinstance(encoding, int):
        raise BrokenPagesError("a data page does not say how many values it holds, and how")
    return values, encoding


class _Reader:
    """Reads compact-protocol values from ``at`` and never beyond ``end``."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: memoryview, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, end

    def struct(self, depth: int) -> dict[int, Any]:
        if depth > MAX_DEPTH:
            raise BrokenPagesError("a header is nested too deep")
        fields: dict[int, Any] = {}
        number = 0
        while lead := self._byte():
            kind = lead & 15
            number = number + (lead >> 4) if lead > 15 else self._zigzag()
            if number in fields:  # readers differ in which one counts
                raise BrokenPagesError("a header has a field twice")
            if kind in _NUMBERS:
                fields[number] = self._zigzag()
            elif kind in (_TRUE, _FALSE):
                fields[number] = kind == _TRUE
            else:
                fields[number] = self._other(kind, depth)
        return fields

    def _other(self, kind: int, depth: int) -> Any:
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind == _BINARY:
            return self._skip(self._varint())
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind == _DOUBLE:
            return self._skip(8)
        if kind == _BYTE:
            return self._byte()
        raise BrokenPagesError("a header has a field of unknown type")

    def _list(self, depth: int) -> None:
        lead = self._byte()
        count = lead >> 4 if lead >> 4 != 15 else self._varint()
        if count > self.end - self.at:
            raise BrokenPagesError("a header has a list that is too long")
        for _ in range(count):
            self._element(lead & 15, depth + 1)

    def _element(self, kind: int, depth: int) -> None:
        if kind in _NUMBERS:
            self._zigzag()
        elif kind in (_TRUE, _FALSE):
            self._byte()
        else:
            self._other(kind, depth)

    def _skip(self, count: int) -> None:
        if count > self.end - self.at:
            raise BrokenPagesError("a header is cut off")
        self.at += count

    def _byte(self) -> int:
        at = self.at
        if at >= self.end:
            raise BrokenPagesError("a header is cut off")
        self.at = at + 1
        return self.data[at]

    def _varint(self) -> int:
        value = shift = 0
        while shift <= 63:
            part = self._byte()
            value |= (part & 127) << shift
            if part < 128:
                return value
            shift += 7
        raise BrokenPagesError("a header has a number that is too long")

    def _zigzag(self) -> int:
        at = self.at
        if at < self.end and (value := self.data[at]) < 128:  # nearly all of them
            self.at = at + 1
        else:
            value = self._varint()
        return value >> 1 ^ -(value & 1)

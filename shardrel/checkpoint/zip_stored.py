"""Zip archives as torch writes them: a few entries, stored as they are. Source: schemas/SPEC.md#checkpoint-exchange.

An archive lies somewhere inside of a file. Sizes and places are checked against it before anything is read, so what an
archive claims costs no memory; whoever reads an entry decides how much of it.
"""

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shardrel.errors import ErrorCode, InvalidInputError

Read = Callable[[int, int], bytes]
"""Bytes of the archive: first byte, and how many; fewer where it ends."""

MAX_DIRECTORY = 1 << 20
_PIECE = 1 << 24
_END = struct.Struct("<IHHHHIIH")
_END64 = struct.Struct("<IQHHIIQQQQ")
_LOCATOR = struct.Struct("<IIQI")
_LISTED = struct.Struct("<IHHHHHHIIIHHHHHII")
_LOCAL = struct.Struct("<IHHHHHIIIHH")
_DESCRIPTOR_AND_UTF8 = 0x0808
_WIDE, _NARROW = 0xFFFFFFFF, 0xFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A stored entry; ``start`` counts from the archive's first byte. ``crc`` is null where the archive has no sums."""

    start: int
    size: int
    crc: int | None


def entries(read: Read, size: int) -> dict[str, Entry]:
    """Entries of an archive of so many bytes, by their names below its one folder.

    Raises:
        InvalidInputError: ``input.corrupt``: not an archive of this kind, or not all of one.
    """
    try:
        start, count, length = _directory(read, size)
        listed = _listed(read(start, length), count)
        # torch writes zeros everywhere when it was told to leave the sums out.
        summed = any(one.crc for one in listed.values())
        return {_inner(name): _placed(read, name, one, start, summed) for name, one in listed.items()}
    except InvalidInputError:
        raise
    except (ValueError, LookupError, struct.error) as err:
        raise _corrupt() from err


def check(read: Read, entry: Entry) -> None:
    """Hold the bytes of an entry against the sum that the archive has of them, a piece at a time.

    Raises:
        InvalidInputError: ``input.corrupt``.
    """
    if entry.crc is None:
        return
    found = 0
    for at in range(0, entry.size, _PIECE):
        found = zlib.crc32(read(entry.start + at, min(_PIECE, entry.size - at)), found)
    if found != entry.crc:
        raise _corrupt()


def _directory(read: Read, size: int) -> tuple[int, int, int]:
    """Start, number of entries and length of the list that stands before the archive's end."""
    mark, *_, count, length, start, comment = _END.unpack(read(size - _END.size, _END.size))
    before = size - _END.size
    if mark != 0x06054B50 or comment:
        raise ValueError("end")
    if count == _NARROW or _WIDE in (length, start):
        locator, _, where, _ = _LOCATOR.unpack(read(before - _LOCATOR.size, _LOCATOR.size))
        wide, *_, count, length, start = _END64.unpack(read(where, _END64.size))
        if (locator, wide) != (0x07064B50, 0x06064B50):
            raise ValueError("wide end")
        before = where
    if length > MAX_DIRECTORY or start + length > before:
        raise ValueError("directory")
    return start, count, length


def _listed(data: bytes, count: int) -> Mapping[str, Entry]:
    found: dict[str, Entry] = {}
    at = 0
    while at < len(data):
        one = _LISTED.unpack_from(data, at)
        mark, flags, method, crc, packed, size = one[0], one[3], one[4], one[7], one[8], one[9]
        name_length, extra_length, comment, start = one[10], one[11], one[12], one[16]
        at += _LISTED.size
        name = data[at : at + name_length].decode()
        extra = data[at + name_length : at + name_length + extra_length]
        at += name_length + extra_length + comment
        size, packed, start = _widened(extra, size, packed, start)
        if mark != 0x02014B50 or method or flags & ~_DESCRIPTOR_AND_UTF8 or packed != size or name in found:
            raise ValueError("entry")
        found[name] = Entry(start=start, size=size, crc=crc)
    if at != len(data) or len(found) != count or len({name.split("/")[0] for name in found}) > 1:
        raise ValueError("directory")
    return found


def _widened(extra: bytes, *narrow: int) -> list[int]:
    """Sizes and place, where the narrow fields say that the wide ones of the extra field hold."""
    wide = b""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            wide = extra[at + 4 : at + 4 + length]
        at += 4 + length
    found = []
    for value in narrow:
        if value == _WIDE:
            value, wide = struct.unpack_from("<Q", wide)[0], wide[8:]
        found.append(value)
    return found


def _placed(read: Read, name: str, listed: Entry, limit: int, summed: bool) -> Entry:
    header = _LOCAL.unpack(read(listed.start, _LOCAL.size))
    name_at = listed.start + _LOCAL.size
    if header[0] != 0x04034B50 or read(name_at, header[9]) != name.encode():
        raise ValueError("local header")
    start = name_at + header[9] + header[10]
    if start + listed.size > limit:
        raise ValueError("entry behind the end")
    return Entry(start=start, size=listed.size, crc=listed.crc if summed else None)


def _inner(name: str) -> str:
    return name.split("/", 1)[1]


def _corrupt() -> InvalidInputError:
    return InvalidInputError(
        ErrorCode.INPUT_CORRUPT, "the file holds an archive that is not one of torch's, or not whole"
    )

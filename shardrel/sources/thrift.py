"""Just enough of Thrift's compact protocol to read the offsets in a Parquet footer.

Source: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from typing import Any

_MAX_DEPTH = 32


class ThriftError(ValueError):
    """The bytes are not a structure of the compact protocol."""


def read_struct(data: bytes) -> dict[int, Any]:
    """Field numbers to values: ints, bools, bytes, lists and nested structs (maps and doubles are skipped)."""
    try:
        return _struct(data, 0, 0)[0]
    except IndexError as err:
        raise ThriftError("the structure is cut") from err


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ThriftError("a number has more than 64 bits")


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:  # most numbers are small, and there are very many
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    if depth > _MAX_DEPTH:
        raise ThriftError("structures are nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return fields, at
        delta, kind = head >> 4, head & 15
        if delta:
            number += delta
        else:
            number, at = _zigzag(data, at)
        if number in fields:  # readers differ in which one counts
            raise ThriftError("a structure has a field twice")
        if kind in (1, 2):
            fields[number] = kind == 1
        else:
            fields[number], at = _value(data, at, kind, depth)


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2, 3):
        return data[at], at + 1
    if kind in (4, 5, 6):
        return _zigzag(data, at)
    if kind == 7:
        return None, at + 8
    if kind == 8:
        size, at = _varint(data, at)
        if at + size > len(data):
            raise ThriftError("a string leaves the structure")
        return data[at : at + size], at + size
    if kind in (9, 10):
        return _list(data, at, depth)
    if kind == 12:
        return _struct(data, at, depth + 1)
    raise ThriftError(f"type {kind} does not occur in a footer")


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    head = data[at]
    at += 1
    size, kind = head >> 4, head & 15
    if size == 15:
        size, at = _varint(data, at)
    if size > len(data):
        raise ThriftError("a list claims more elements than there are bytes")
    items = []
    for _ in range(size):
        item, at = _value(data, at, kind, depth + 1)
        items.append(item)
    return items, at

"""Canonical JSON: RFC 8785, restricted. Source: schemas/SPEC.md#canonical-json

No floats, integers within ±(2^53−1), no lone surrogates. A reader decodes strictly, encodes what
it understood again and refuses bytes that differ from its input: one rule that removes duplicate
keys, number spellings, white space, key order and unknown fields as attacks.
"""

import re
from json.encoder import encode_basestring
from typing import Any, TypeVar

import msgspec

from shardrel.canonical.closed import MAX_INTEGER, is_closed
from shardrel.errors import ErrorCode, FormatError, InternalError

MAX_RECORD_BYTES = 64 * 1024 * 1024

__all__ = ["MAX_INTEGER", "MAX_RECORD_BYTES", "decode", "encode"]

T = TypeVar("T")


def encode(value: Any) -> bytes:
    """Canonical bytes of a record (msgspec struct) or of plain dict/list/str/int/bool/None.

    Raises:
        InternalError: ``internal.bug`` for a float, an integer out of range, a lone surrogate, or
            more nesting than Python's stack holds.
    """
    try:
        return _emit(msgspec.to_builtins(value)).encode("utf-8", "strict")
    except UnicodeEncodeError:
        # The cause would quote the text.
        raise InternalError(ErrorCode.INTERNAL, "canonical JSON has no lone surrogates") from None
    except RecursionError as err:
        raise InternalError(ErrorCode.INTERNAL, "the value is nested too deeply for canonical JSON") from err


def decode(data: bytes | memoryview, kind: type[T], *, max_bytes: int = MAX_RECORD_BYTES) -> T:
    """Decode canonical bytes into a record.

    Args:
        data: Bytes as stored or received; at most ``max_bytes`` of them are looked at.
        kind: A closed msgspec struct, or a union of them tagged by ``schema``.

    Raises:
        FormatError: ``format.too-large``, ``format.unknown-schema`` (a record of another kind or
            version), ``format.not-a-record`` (does not parse, unknown or missing field, wrong type),
            ``format.not-canonical`` (parses, but other bytes).
    """
    if len(data) > max_bytes:
        raise FormatError(
            ErrorCode.FORMAT_TOO_LARGE, f"a record has at most {max_bytes} bytes", size=len(data), limit=max_bytes
        )
    try:
        record = msgspec.json.decode(data, type=kind)
        again = _encode_decoded(record, kind)
    except (msgspec.DecodeError, msgspec.ValidationError, InternalError, UnicodeError, RecursionError) as err:
        raise FormatError(
            _misfit(data, kind), "the bytes are not a record of the expected kind", kind=_name(kind)
        ) from err
    if again != data:
        raise FormatError(
            ErrorCode.FORMAT_NOT_CANONICAL, "the bytes are not the canonical form of this record", kind=_name(kind)
        )
    return record


class _Named(msgspec.Struct):
    schema: str


def _misfit(data: bytes | memoryview, kind: Any) -> ErrorCode:
    """A record of another kind, or of a newer version, is told from bytes that are no record at all."""
    config = getattr(kind, "__struct_config__", None)
    if config is None or config.tag_field != "schema":
        return ErrorCode.FORMAT_NOT_A_RECORD
    try:
        named = msgspec.json.decode(data, type=_Named).schema
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ErrorCode.FORMAT_NOT_A_RECORD
    return ErrorCode.FORMAT_NOT_A_RECORD if named == config.tag else ErrorCode.FORMAT_UNKNOWN_SCHEMA


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


_SORTED = msgspec.json.Encoder(order="sorted")
# From U+E000 on, the order of code points is not that of UTF-16 code units.
_LATE = re.compile(rb"[\xee-\xff]")


def _encode_decoded(record: Any, kind: Any) -> bytes:
    """What :func:`encode` gives, tens of times faster where the kind's own rules exclude all that it refuses."""
    if not is_closed(kind):
        return encode(record)
    quick = _SORTED.encode(record)
    return quick if quick.isascii() or not _LATE.search(quick) else encode(record)


def _emit(value: Any) -> str:
    if isinstance(value, str):
        return encode_basestring(value)
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise InternalError(ErrorCode.INTERNAL, "canonical JSON has no integers beyond 2^53-1")
        return str(value)
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_emit, value)) + "]"
    if isinstance(value, dict):
        keys = sorted(value, key=_utf16)
        return "{" + ",".join(map(_member, keys, map(value.__getitem__, keys))) + "}"
    raise InternalError(ErrorCode.INTERNAL, f"canonical JSON has no {type(value).__name__}")


def _member(key: str, value: Any) -> str:
    return encode_basestring(key) + ":" + _emit(value)


def _utf16(key: str) -> bytes:
    """RFC 8785 sorts by UTF-16 code units; only beyond the BMP does that differ from code points."""
    return key.encode("utf-16-be", "strict")

"""Canonical JSON: RFC 8785, restricted. Source: schemas/SPEC.md#canonical-json

No floats, integers within ±(2^53−1), no lone surrogates. A reader decodes strictly, encodes what
it understood again and refuses bytes that differ from its input: one rule that removes duplicate
keys, number spellings, white space, key order and unknown fields as attacks.
"""

from typing import Any, TypeVar

import msgspec

from shardrel.errors import ErrorCode, FormatError, InternalError

MAX_RECORD_BYTES = 64 * 1024 * 1024
MAX_INTEGER = 2**53 - 1

T = TypeVar("T")


def encode(value: Any) -> bytes:
    """Canonical bytes of a record (msgspec struct) or of plain dict/list/str/int/bool/None.

    Raises:
        InternalError: ``internal.bug`` for a float, an integer out of range or a lone surrogate.
    """
    return _emit(msgspec.to_builtins(value)).encode("utf-8", "strict")


def decode(data: bytes | memoryview, kind: type[T], *, max_bytes: int = MAX_RECORD_BYTES) -> T:
    """Decode canonical bytes into a record.

    Args:
        data: Bytes as stored or received; at most ``max_bytes`` of them are looked at.
        kind: A closed msgspec struct, or a union of them tagged by ``schema``.

    Raises:
        FormatError: ``format.too-large``, ``format.not-a-record`` (does not parse, unknown or
            missing field, wrong type), ``format.not-canonical`` (parses, but other bytes).
    """
    if len(data) > max_bytes:
        raise FormatError(
            ErrorCode.FORMAT_TOO_LARGE, f"a record has at most {max_bytes} bytes", size=len(data), limit=max_bytes
        )
    try:
        record = msgspec.json.decode(data, type=kind)
        again = encode(record)
    except (msgspec.DecodeError, msgspec.ValidationError, InternalError, UnicodeError, RecursionError) as err:
        raise FormatError(
            ErrorCode.FORMAT_NOT_A_RECORD, "the bytes are not a record of the expected kind", kind=_name(kind)
        ) from err
    if again != bytes(data):
        raise FormatError(
            ErrorCode.FORMAT_NOT_CANONICAL, "the bytes are not the canonical form of this record", kind=_name(kind)
        )
    return record


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


_STRING = msgspec.json.Encoder()


def _emit(value: Any) -> str:
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise InternalError(ErrorCode.INTERNAL, "canonical JSON has no integers beyond 2^53-1")
        return str(value)
    if isinstance(value, list | tuple):
        return "[" + ",".join([_emit(item) for item in value]) + "]"
    if isinstance(value, dict):
        keys = sorted(value, key=_utf16)
        return "{" + ",".join([_string(key) + ":" + _emit(value[key]) for key in keys]) + "}"
    raise InternalError(ErrorCode.INTERNAL, f"canonical JSON has no {type(value).__name__}")


def _utf16(key: str) -> bytes:
    """RFC 8785 sorts by UTF-16 code units; only beyond the BMP does that differ from code points."""
    return key.encode("utf-16-be", "strict")


def _string(text: str) -> str:
    try:
        return _STRING.encode(text).decode()
    except UnicodeEncodeError as err:
        raise InternalError(ErrorCode.INTERNAL, "canonical JSON has no lone surrogates") from err

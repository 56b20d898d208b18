"""JSON of other tools, read so that two programs cannot read it in two ways.

Envelopes and statements need not be in our canonical form, since other tools write them too; what
is refused are the spellings on which parsers differ: duplicate keys, NaN, lone surrogates, trailing data.
"""

import json
from typing import Any, NoReturn

from shardrel.errors import ErrorCode, FormatError


def parse_object(data: bytes, *, max_bytes: int) -> dict[str, Any]:
    """Decode one JSON object.

    Raises:
        FormatError: ``format.too-large``, ``format.not-a-record``.
    """
    value = parse_value(data, max_bytes=max_bytes)
    if not isinstance(value, dict):
        raise FormatError(ErrorCode.FORMAT_NOT_A_RECORD, "the bytes are not one JSON object")
    return value


def parse_value(data: bytes, *, max_bytes: int) -> Any:
    """Decode one JSON value.

    Raises:
        FormatError: As ``parse_object``.
    """
    if len(data) > max_bytes:
        raise FormatError(ErrorCode.FORMAT_TOO_LARGE, f"there are at most {max_bytes} bytes", size=len(data))
    try:
        text = data.decode("utf-8", "strict")
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode("utf-8", "strict")
    except (ValueError, RecursionError) as err:
        raise FormatError(ErrorCode.FORMAT_NOT_A_RECORD, "the bytes are not one unambiguous JSON value") from err
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key")
    return value


def _refuse(_: str) -> NoReturn:
    raise ValueError("not a JSON number")

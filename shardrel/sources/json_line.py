"""One line of JSON Lines, decoded strictly: an object, no twin keys, nothing that JSON does not have."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from shardrel.errors import ErrorCode, InvalidInputError

_DECODER = msgspec.json.Decoder()
_SPACED_KEY = re.compile(rb'"[ \t\r]+:')


def decode_line(path: Path, row: int, line: bytes) -> dict[str, Any]:
    """The object on a line.

    Refused are: a blank line, anything but one object, a key that occurs twice in one object, NaN and
    infinity, numbers beyond float64, text that is not UTF-8 (also as an escaped half of a surrogate pair).

    Args:
        path: The file, for the error.
        row: Number of the line, from 0.
        line: Its bytes without the newline.

    Raises:
        InvalidInputError: ``input.json-line``, ``input.invalid-utf8``, with path and row, never with content.
    """
    try:
        record = _DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError) as err:
        raise _malformed(path, row, line) from err
    if type(record) is not dict:
        raise _line_error(ErrorCode.INPUT_JSON, path, row, "is not an object")
    try:
        twins = _may_have_twins(line, record) and _has_twins(line)
    except RecursionError as err:
        raise _line_error(ErrorCode.INPUT_JSON, path, row, "is nested too deeply") from err
    if twins:
        raise _line_error(ErrorCode.INPUT_JSON, path, row, "has a key twice in one object")
    return record


def at_row(path: Path, row: int, err: InvalidInputError) -> InvalidInputError:
    """The same error, with file and row."""
    return InvalidInputError(
        err.code, f"{path}, row {row} (line {row + 1}): {err.message}", **{**err.context, "path": str(path), "row": row}
    )


def _may_have_twins(line: bytes, record: dict[str, Any]) -> bool:
    """Cheap and never wrongly False: each key of the text is followed by a colon, and a twin leaves no key behind."""
    return line.count(b'":') != _count_keys(record) or _SPACED_KEY.search(line) is not None


def _count_keys(value: Any) -> int:
    if type(value) is dict:
        count = len(value)
        for item in value.values():
            if type(item) is dict or type(item) is list:
                count += _count_keys(item)
        return count
    return sum([_count_keys(item) for item in value if type(item) is dict or type(item) is list])


def _has_twins(line: bytes) -> bool:
    found = False

    def watch(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len({key for key, _ in pairs}) != len(pairs)

    json.loads(line, object_pairs_hook=watch)
    return found


def _malformed(path: Path, row: int, line: bytes) -> InvalidInputError:
    try:
        line.decode("utf-8", "strict")
    except UnicodeDecodeError:
        return _line_error(ErrorCode.INPUT_UTF8, path, row, "is not UTF-8")
    return _line_error(ErrorCode.INPUT_JSON, path, row, "is not JSON" if line.strip() else "is blank")


def _line_error(code: ErrorCode, path: Path, row: int, what: str) -> InvalidInputError:
    return InvalidInputError(code, f"{path}, row {row} (line {row + 1}): it {what}", path=str(path), row=row)

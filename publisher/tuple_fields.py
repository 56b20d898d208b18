"""Columns of a source as tuple fields: strings without nulls, bounded in length.

Source: schemas/SPEC.md#member-tuples
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from shardrel.canonical.json import MAX_INTEGER
from shardrel.canonical.validity import validate
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.membership.bounds import MAX_FIELD_BYTES, MAX_ID_BYTES


class FieldError(InvalidInputError):
    """A value at ``row`` of the batch is refused; the reader adds file and row of the file."""

    def __init__(self, code: ErrorCode, message: str, column: str, row: int) -> None:
        super().__init__(code, message, column=column, row=row)
        self.column = column
        self.row = row


def check_field_type(kind: Any, column: str) -> None:
    """A tuple field comes from text or from integers.

    Raises:
        InvalidInputError: ``input.column-type``.
    """
    kind = _value_type(kind)
    if not (_is_text(kind) or at.is_integer(kind) or at.is_null(kind)):
        raise InvalidInputError(
            ErrorCode.INPUT_COLUMN_TYPE, f"column {column!r} is neither text nor integer", column=column
        )


def check_token_type(kind: Any, column: str) -> None:
    """Tokens are the length of a list, or an integer.

    Raises:
        InvalidInputError: ``input.column-type``.
    """
    kind = _value_type(kind)
    if not (_is_list(kind) or at.is_integer(kind) or at.is_null(kind)):
        raise InvalidInputError(
            ErrorCode.INPUT_COLUMN_TYPE, f"column {column!r} is neither a list nor an integer", column=column
        )


def sample_ids_of(array: Any, column: str) -> Any:
    """Sample ids as a plain string array; integers in decimal.

    Raises:
        FieldError: ``input.null-id``, ``input.tuple-field-length`` (empty, or over 1,024 bytes), ``input.invalid-utf8``.
    """
    ids = _strings(array, column, ErrorCode.INPUT_NULL_ID)
    _check_lengths(ids, column, 1, MAX_ID_BYTES)
    return ids


def field_of(array: Any, column: str) -> Any:
    """Source ids, source versions or splits as a plain string array; integers in decimal.

    Raises:
        FieldError: ``input.null-tuple-field``, ``input.tuple-field-length`` (over 4,096 bytes), ``input.invalid-utf8``.
    """
    values = _strings(array, column, ErrorCode.INPUT_NULL_FIELD)
    _check_lengths(values, column, 0, MAX_FIELD_BYTES)
    return values


def constant(value: str, count: int) -> Any:
    """The same value for every record, held once."""
    indices = pa.array(np.zeros(count, np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([value], pa.string()))


def tokens_of(array: Any, column: str) -> npt.NDArray[np.int64]:
    """Tokens of each record.

    Raises:
        FieldError: ``input.token-count``: null, negative, or beyond 2^53−1.
    """
    array = _decoded(array)
    _refuse(array.is_null(), ErrorCode.INPUT_TOKENS, "it is null", column)
    counts = pc.list_value_length(array) if _is_list(array.type) else array
    if at.is_uint64(counts.type):
        _refuse(
            pc.greater(counts, pa.scalar(MAX_INTEGER, pa.uint64())), ErrorCode.INPUT_TOKENS, "it is too large", column
        )
    counts = counts.cast(pa.int64())
    _refuse(pc.less(counts, 0), ErrorCode.INPUT_TOKENS, "it is negative", column)
    _refuse(pc.greater(counts, MAX_INTEGER), ErrorCode.INPUT_TOKENS, "it is too large", column)
    out: npt.NDArray[np.int64] = counts.to_numpy(zero_copy_only=False).astype(np.int64)
    return out


def _strings(array: Any, column: str, null_code: ErrorCode) -> Any:
    array = _decoded(array)
    _refuse(array.is_null(), null_code, "it is null", column)
    strings = array.cast(pa.string(), safe=False)
    if not at.is_integer(array.type):
        _check_utf8(strings, column)
    return strings


def _check_utf8(strings: Any, column: str) -> None:
    def valid(part: Any) -> bool:
        try:
            validate(part)
        except pa.ArrowInvalid:
            return False
        return True

    if not valid(strings):
        raise FieldError(ErrorCode.INPUT_UTF8, "it is not UTF-8", column, first_bad(len(strings), strings, valid))


def first_bad(count: int, array: Any, valid: Callable[[Any], bool]) -> int:
    """Position of the first value that makes an array invalid, by halving."""
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        if valid(array.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    return low


def _check_lengths(strings: Any, column: str, least: int, most: int) -> None:
    lengths = pc.binary_length(strings)
    if least:
        _refuse(pc.less(lengths, least), ErrorCode.INPUT_FIELD_LENGTH, "it is empty", column)
    _refuse(pc.greater(lengths, most), ErrorCode.INPUT_FIELD_LENGTH, f"it has more than {most} bytes", column)


def _refuse(mask: Any, code: ErrorCode, what: str, column: str) -> None:
    at_fault = pc.index(mask, pa.scalar(True)).as_py()
    if at_fault >= 0:
        raise FieldError(code, what, column, at_fault)


def _decoded(array: Any) -> Any:
    if at.is_dictionary(array.type):
        return array.dictionary_decode()
    if at.is_run_end_encoded(array.type):
        return pc.run_end_decode(array)
    return array


def _value_type(kind: Any) -> Any:
    return kind.value_type if at.is_dictionary(kind) or at.is_run_end_encoded(kind) else kind


def _is_text(kind: Any) -> bool:
    return any(test(kind) for test in (at.is_string, at.is_large_string, at.is_string_view))


def _is_list(kind: Any) -> bool:
    return any(
        test(kind)
        for test in (at.is_list, at.is_large_list, at.is_fixed_size_list, at.is_list_view, at.is_large_list_view)
    )

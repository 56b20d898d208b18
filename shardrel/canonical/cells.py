"""Cells: the bytes of a column's values, without a loop over rows. Source: schemas/SPEC.md#record-encoding

A column of n rows becomes parts. Under a null nothing is visible: the values of the valid rows are
packed first, encoded, and spread over all rows with nothing in the gaps.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as at

from shardrel.canonical.parts import Fixed, Part, Varying, expand, integers, join
from shardrel.canonical.plain import list_ranges, map_ranges, offsets_of, valid_mask
from shardrel.canonical.validity import validate
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.schema import (
    BinaryType,
    BoolType,
    DateType,
    DecimalType,
    Field,
    FixedBinaryType,
    FloatType,
    IntType,
    ListType,
    LogicalType,
    MapType,
    NullType,
    Slot,
    StringType,
    StructType,
    TimeType,
)


def cell_parts(array: Any, place: Field | Slot, path: str) -> list[Part]:
    """Parts of ``cell(value)`` for each row.

    Args:
        array: Plain ``pa.Array`` of n rows.
        place: Where the values stand: nullability and logical type.
        path: Dotted path for messages.

    Raises:
        InvalidInputError: ``input.invalid-utf8``, ``input.null-not-allowed``, ``input.invalid``
            (a decimal that its precision cannot hold), with the path as ``column``.
    """
    rows = len(array)
    if isinstance(place.type, NullType):
        return [_tags(0, rows)]
    if array.null_count == 0:
        return [_tags(1, rows), *_body(array, place.type, path)]
    if not place.nullable:
        raise _refused(ErrorCode.INPUT_NOT_NULL, path, "a null where the schema allows none")
    valid = valid_mask(array)
    return [Fixed(column=valid.view(np.uint8)), *expand(_body(array.drop_null(), place.type, path), valid)]


def width_of(logical: LogicalType) -> int | None:
    """Bytes of a body that has the same number of them for every value; None for any other type."""
    if isinstance(logical, BoolType):
        return 1
    if isinstance(logical, IntType | FloatType):
        return logical.bits // 8
    if isinstance(logical, DecimalType):
        return 16 if logical.precision <= 38 else 32
    if isinstance(logical, FixedBinaryType):
        return logical.size
    if isinstance(logical, DateType):
        return 4 if logical.unit == "day" else 8
    if isinstance(logical, TimeType):
        return 4 if logical.unit in ("s", "ms") else 8
    if isinstance(logical, NullType | StringType | BinaryType | ListType | StructType | MapType):
        return None
    return 8


def _body(array: Any, logical: LogicalType, path: str) -> list[Part]:
    """Parts of ``body(value)`` for each row of an array without nulls."""
    width = width_of(logical)
    if width is not None:
        return [_bodies(array, logical, width, path)] if width else []
    if isinstance(logical, ListType):
        return _list_body(array, logical, path)
    if isinstance(logical, MapType):
        return _map_body(array, logical, path)
    if isinstance(logical, StructType):
        return _struct_body(array, logical, path)
    return _bytes_body(array, logical, path)


def _bodies(array: Any, logical: LogicalType, width: int, path: str) -> Fixed:
    """The values of a fixed-width column; bytes under nulls are whatever the buffer holds."""
    if isinstance(logical, DecimalType):
        _validate(array, ErrorCode.INPUT_INVALID, path, "a decimal that has more digits than its precision")
    if isinstance(logical, BoolType):
        return Fixed(column=array.cast(pa.uint8()).fill_null(0).to_numpy())
    dtype = np.dtype(f"<u{width}" if width in (1, 2, 4, 8) else f"V{width}")
    if len(array) == 0:
        return Fixed(column=np.empty(0, dtype))
    return Fixed(column=np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * width))


def _bytes_body(array: Any, logical: LogicalType, path: str) -> list[Part]:
    offsets, data = offsets_of(array), array.buffers()[2] or pa.py_buffer(b"")
    if isinstance(logical, StringType):
        _validate(_as_text(array), ErrorCode.INPUT_UTF8, path, "text that is not valid UTF-8")
    return [integers(np.diff(offsets)), Varying(offsets=offsets, data=data)]


def _as_text(array: Any) -> Any:
    if at.is_string(array.type) or at.is_large_string(array.type):
        return array
    kind = pa.large_string() if at.is_large_binary(array.type) else pa.string()
    return pa.Array.from_buffers(kind, len(array), array.buffers(), offset=array.offset)


def _struct_body(array: Any, logical: StructType, path: str) -> list[Part]:
    parts: list[Part] = []
    for i, field in enumerate(logical.fields):
        parts += cell_parts(array.field(i), field, f"{path}.{field.name}")
    return parts


def _list_body(array: Any, logical: ListType, path: str) -> list[Part]:
    offsets, values = list_ranges(array)
    counts = np.diff(offsets)
    width = width_of(logical.element.type)
    if not width:
        cells = cell_parts(values, logical.element, f"{path}[]")
        return [integers(counts), _rows_of_elements(cells, len(values), offsets)]
    if values.null_count == 0:
        return [integers(counts), *_packed(values, logical.element.type, width, offsets, f"{path}[]")]
    if not logical.element.nullable:
        raise _refused(ErrorCode.INPUT_NOT_NULL, f"{path}[]", "a null where the schema allows none")
    return [integers(counts), *_packed_with_nulls(values, logical.element.type, width, offsets, f"{path}[]")]


def _map_body(array: Any, logical: MapType, path: str) -> list[Part]:
    offsets, keys, items = map_ranges(array)
    cells = cell_parts(keys, logical.key, f"{path}.key") + cell_parts(items, logical.value, f"{path}.value")
    return [integers(np.diff(offsets)), _rows_of_elements(cells, len(keys), offsets)]


def _rows_of_elements(cells: list[Part], elements: int, offsets: npt.NDArray[np.int64]) -> Varying:
    """The cells of each row's elements one after another: the joined cells, cut at the rows."""
    joined = join(cells, elements)
    return Varying(offsets=offsets_of(joined)[offsets], data=joined.buffers()[2] or pa.py_buffer(b""))


def _packed(values: Any, logical: LogicalType, width: int, offsets: npt.NDArray[np.int64], path: str) -> list[Part]:
    """Elements of lists without null elements: a zero byte, then a slice of the values as they lie."""
    column = _bodies(values, logical, width, path).column
    bodies = Varying(offsets=offsets * width, data=pa.py_buffer(column.view(np.uint8)))
    return [_flags(np.diff(offsets) > 0, 0), bodies]


def _packed_with_nulls(
    values: Any, logical: LogicalType, width: int, offsets: npt.NDArray[np.int64], path: str
) -> list[Part]:
    """Elements where some lists have null elements: those lists carry a validity byte an element."""
    valid = valid_mask(values)
    counts = np.diff(offsets)
    nulls_before = np.concatenate([[0], np.cumsum(~valid)])
    holed = nulls_before[offsets[1:]] > nulls_before[offsets[:-1]]
    flags = Varying(
        offsets=np.concatenate([[0], np.cumsum(counts > 0)]),
        data=pa.py_buffer(holed[counts > 0].astype(np.uint8)),
    )
    marks = Varying(
        offsets=np.concatenate([[0], np.cumsum(counts * holed)]),
        data=pa.py_buffer(valid[np.repeat(holed, counts)].astype(np.uint8)),
    )
    bodies = _bodies(values, logical, width, path).column.copy()
    bodies[~valid] = np.zeros(1, bodies.dtype)
    return [flags, marks, Varying(offsets=offsets * width, data=pa.py_buffer(bodies.view(np.uint8)))]


def _flags(present: npt.NDArray[np.bool_], value: int) -> Part:
    """One byte in each row that is present, nothing in the others."""
    if present.all():
        return _tags(value, len(present))
    ends = np.cumsum(present)
    return Varying(offsets=np.concatenate([[0], ends]), data=pa.py_buffer(bytes([value]) * int(ends[-1])))


def _tags(value: int, rows: int) -> Fixed:
    return Fixed(column=np.broadcast_to(np.uint8(value), (rows,)))


def _validate(array: Any, code: ErrorCode, path: str, what: str) -> None:
    try:
        validate(array)
    except pa.ArrowInvalid:
        # Arrow's message may quote the value, so it is not chained.
        raise _refused(code, path, what) from None


def _refused(code: ErrorCode, path: str, what: str) -> InvalidInputError:
    return InvalidInputError(code, f"column {path!r} holds {what}", column=path)

"""Bodies of fixed-width types as byte matrices. Source: schemas/SPEC.md#record-encoding"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records import schema as rs
from verifier.pieces import Bytes, Fixed, Mask


def fixed_width(kind: rs.LogicalType) -> int | None:
    """Bytes of a body of a fixed-width type, None for any other."""
    match kind:
        case rs.BoolType():
            return 1
        case rs.IntType(bits=bits) | rs.FloatType(bits=bits):
            return bits // 8
        case rs.DecimalType(precision=precision):
            return 16 if precision <= 38 else 32
        case rs.FixedBinaryType(size=size):
            return size
        case rs.DateType(unit=unit):
            return 4 if unit == "day" else 8
        case rs.TimeType(unit=unit):
            return 4 if unit in ("s", "ms") else 8
        case rs.TimestampType() | rs.DurationType():
            return 8
    return None


def fixed_bytes(kind: rs.LogicalType, values: Any, present: Mask | None) -> Fixed:
    """Bodies of an array (without dictionary or extension clothing); what a null's bytes are is not defined."""
    width = fixed_width(kind)
    if width is None:
        raise TypeError("a type without a fixed width has no byte matrix")
    if isinstance(kind, rs.DecimalType):
        values = _wide_decimal(kind, values)
        _check_digits(values, present)
    return Fixed(_matrix(kind, values, width), present)


def _matrix(kind: rs.LogicalType, values: Any, width: int) -> Bytes:
    count = len(values)
    if isinstance(kind, rs.BoolType):
        values = values.cast(pa.uint8())
    elif not isinstance(kind, rs.FixedBinaryType) and values.type.bit_width != 8 * width:
        # An int32 of seconds and the like never needs this; other clothes of one logical type have one width.
        raise TypeError("an array of another width than its logical type")
    data = values.buffers()[1]
    if data is None or not count * width:
        return np.zeros((count, width), np.uint8)
    return np.frombuffer(data, np.uint8, count * width, values.offset * width).reshape(count, width)


def _wide_decimal(kind: rs.DecimalType, values: Any) -> Any:
    if kind.precision > 38:
        return values if pt.is_decimal256(values.type) else values.cast(pa.decimal256(kind.precision, kind.scale))
    return values if pt.is_decimal128(values.type) else values.cast(pa.decimal128(kind.precision, kind.scale))


def _check_digits(values: Any, present: Mask | None) -> None:
    shown = values if present is None or present.all() else values.filter(pa.array(present))
    try:
        shown.validate(full=True)
    except pa.ArrowInvalid as err:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "a decimal has more digits than its precision") from err

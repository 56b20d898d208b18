"""Columns whose lists of numbers are stored as bytes. Source: schemas/SPEC.md#packed"""

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from shardrel.errors import ErrorCode
from shardrel.records import schema as rs
from shardrel.records.release import ColumnEncoding, Serializer
from verifier.physical import physical_type
from verifier.structure import FlawError

_NO_OFFSETS = np.zeros(1, np.int32)
_MAX32 = 2**31 - 1


def packed_fields(serializer: Serializer, schema: rs.RecordSchema) -> dict[str, rs.Field]:
    """The columns that are declared as packed and can be, by name."""
    declared = {column.path for column in serializer.columns if column.physical == "packed"}
    return {field.name: field for field in schema.fields if field.name in declared and element_width(field.type)}


def is_possible(column: ColumnEncoding, packed: Collection[str]) -> bool:
    """Whether a declared column may be stored as it says it is."""
    return column.physical == "native" or (column.path in packed and not column.dictionary)


def element_width(kind: rs.LogicalType) -> int:
    """Bytes of an element of a list that can be packed; 0 for any other type, and for elements beyond 2^31 - 1 bytes."""
    if not isinstance(kind, rs.ListType):
        return 0
    width = number_width(kind)
    inner = kind.element.type
    while isinstance(inner, rs.ListType):
        width *= inner.size or 0
        inner = inner.element.type
    return width if width <= _MAX32 else 0


def number_width(kind: rs.LogicalType) -> int:
    """Bytes of the numbers that lists, in each other at times, are made of; 0 where they are of something else."""
    while isinstance(kind, rs.ListType):
        kind = kind.element.type
    return kind.bits // 8 if isinstance(kind, rs.IntType | rs.FloatType) else 0


def unpacked(batch: pa.RecordBatch, packed: dict[str, rs.Field]) -> pa.RecordBatch:
    """The batch with lists for bytes.

    Raises:
        FlawError: ``record.schema-mismatch``: bytes that are no whole number of elements;
            ``parquet.parameters-mismatch``: a dictionary, which could unfold to more than a batch may hold.
    """
    for name, field in packed.items():
        at = batch.schema.get_field_index(name)
        if pt.is_dictionary(batch.column(at).type):
            raise FlawError(ErrorCode.PARQUET_PARAMETERS, "a packed column has a dictionary")
        made = _lists(batch.column(at), field.type)
        batch = batch.set_column(at, pa.field(name, made.type, nullable=field.nullable), made)
    return batch


def _lists(data: Any, kind: Any) -> Any:
    width = number_width(kind)
    offsets = np.frombuffer(data.buffers()[1], np.int32, len(data) + 1, data.offset * 4) if len(data) else _NO_OFFSETS
    first, size = int(offsets[0]), int(offsets[-1]) - int(offsets[0])
    raw = np.frombuffer(data.buffers()[2] or b"", np.uint8)[first : first + size]
    if raw.ctypes.data % width:
        raw = raw.copy()
    kinds, inner = [kind], kind.element.type
    while isinstance(inner, rs.ListType):
        kinds.append(inner)
        inner = inner.element.type
    borders = (offsets - first).astype(np.int64)
    if (borders % element_width(kind)).any():
        raise FlawError(ErrorCode.RECORD_SCHEMA, "the bytes of a packed list are no whole number of elements")
    count = size // width
    values = pa.Array.from_buffers(physical_type(inner), count, [None, pa.py_buffer(raw)])
    for inside in reversed(kinds[1:]):
        regular = pa.array(np.arange(0, len(values) + 1, inside.size or 1, dtype=np.int32))
        values = pa.ListArray.from_arrays(regular, values, type=physical_type(inside))
    rows = pa.array((borders // element_width(kind)).astype(np.int32))
    nulls = data.is_null() if data.null_count else None
    return pa.ListArray.from_arrays(rows, values, type=physical_type(kind), mask=nulls)

"""Cut batches by the bytes that their rows decode to, so that a few stored bytes can't fill the memory.

A dictionary or run-end encoded column, and a view, can stand for far more bytes than it holds.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# Readers keep some hundred bytes a row beside the values.
BATCH_ROWS = 65_536

Sizes = npt.NDArray[np.int64]


def split_batch(batch: Any, batch_bytes: int) -> Iterator[Any]:
    """Zero-copy slices of a ``pa.RecordBatch``: at most ``batch_bytes`` decoded bytes or one row, and ``BATCH_ROWS``."""
    for start in range(0, batch.num_rows, BATCH_ROWS):
        yield from _split_bytes(batch.slice(start, BATCH_ROWS), batch_bytes)


def _split_bytes(batch: Any, batch_bytes: int) -> Iterator[Any]:
    rows = batch.num_rows
    if rows <= 1 or (batch.nbytes <= batch_bytes and not any(_expands(column.type) for column in batch.columns)):
        if rows:
            yield batch
        return
    ends = np.cumsum(sum((row_bytes(column) for column in batch.columns), np.zeros(rows, np.int64)))
    start = 0
    while start < rows:
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + batch_bytes, "right")), start + 1)
        yield batch.slice(start, stop - start)
        start = stop


def row_bytes(array: Any) -> Sizes:
    """Decoded bytes of each value of an array, about; never less than the variable part."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return row_bytes(array.storage)
    if pa.types.is_dictionary(kind):
        return _gather(row_bytes(array.dictionary), array.indices)
    if pa.types.is_run_end_encoded(kind):
        ends = np.asarray(array.run_ends)
        at = np.searchsorted(ends, np.arange(array.offset, array.offset + len(array)), "right")
        return row_bytes(array.values)[at]
    if pa.types.is_struct(kind):
        fields = [row_bytes(field) for field in array.flatten()] or [np.zeros(len(array), np.int64)]
        return sum(fields[1:], fields[0])
    if pa.types.is_fixed_size_list(kind):
        child = array.values.slice(array.offset * kind.list_size, len(array) * kind.list_size)
        by_row: Sizes = row_bytes(child).reshape(len(array), kind.list_size).sum(axis=1, dtype=np.int64)
        return by_row
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        return _of_lists(array)
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return _of_list_views(array)
    if _is_variable(kind):
        lengths = pc.fill_null(pc.binary_length(_measurable(array)), 0)
        plus: Sizes = np.asarray(lengths).astype(np.int64) + 4
        return plus
    return np.full(len(array), _width(kind), np.int64)


def _width(kind: Any) -> int:
    """Bytes of a value of a type whose values all have the same."""
    if isinstance(kind, pa.BaseExtensionType):
        return _width(kind.storage_type)
    return 0 if pa.types.is_null(kind) else max(kind.bit_width // 8, 1)


def _measurable(array: Any) -> Any:
    """Lengths of views have no kernel; a cast of the type is enough, as nobody keeps the copy."""
    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        return array.cast(pa.large_binary())
    return array


def _of_lists(array: Any) -> Sizes:
    offsets = np.asarray(array.offsets).astype(np.int64)
    # A map's keys and values are looked at one by one: behind its last entry one may be longer than the other.
    children = (array.keys, array.items) if pa.types.is_map(array.type) else (array.values,)
    return sum((_of_elements(offsets, child) for child in children), np.full(len(array), 4, np.int64))


def _of_elements(offsets: Sizes, child: Any) -> Sizes:
    if not (_is_nested(child.type) or _is_variable(child.type) or _expands(child.type)):
        # Lists of numbers are most of what there is: no look at each element.
        by_row: Sizes = np.diff(offsets) * _width(child.type)
        return by_row
    first, last = int(offsets[0]), int(offsets[-1])
    ends = np.concatenate([[0], np.cumsum(row_bytes(child.slice(first, last - first)))])
    lengths: Sizes = np.diff(ends[offsets - first])
    return lengths


def _of_list_views(array: Any) -> Sizes:
    ends = np.concatenate([[0], np.cumsum(row_bytes(array.values))])
    offsets = np.asarray(array.offsets).astype(np.int64)
    lengths: Sizes = ends[offsets + np.asarray(array.sizes).astype(np.int64)] - ends[offsets]
    return lengths + 4


def _gather(sizes: Sizes, indices: Any) -> Sizes:
    if not len(sizes):
        return np.zeros(len(indices), np.int64)
    at = np.asarray(pc.fill_null(indices, 0)).astype(np.int64)
    return sizes[at]


def _is_variable(kind: Any) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _is_variable(kind.storage_type)
    return any(
        test(kind)
        for test in (
            pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary,
            pa.types.is_string_view, pa.types.is_binary_view,
        )
    )  # fmt: skip


def _is_nested(kind: Any) -> bool:
    return bool(pa.types.is_nested(kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind))


def _expands(kind: Any) -> bool:
    """Whether values of a type can stand for more bytes than its buffers hold."""
    if isinstance(kind, pa.BaseExtensionType):
        return _expands(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return True
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return True
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return True
    return pa.types.is_nested(kind) and any(_expands(kind.field(at).type) for at in range(kind.num_fields))

"""Cutting batches so that what a slice decodes to stays small, known before anything is decoded."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as at

from shardrel.canonical.plain import is_plain, list_ranges, map_ranges, offsets_of, run_of_row, valid_mask, view_spans

SLICE_BYTES = 32 * 1024 * 1024

Sizes = npt.NDArray[np.int64]

# Tag and length or count of a cell.
_OVERHEAD = 9


def sliced(batch: Any, limit: int = SLICE_BYTES) -> Iterator[Any]:
    """Slices of a batch, in order, of at most about ``limit`` decoded bytes or of one row.

    Args:
        batch: ``pa.RecordBatch`` in any clothing; nothing is copied.
        limit: Bytes of decoded values.

    Yields:
        ``pa.RecordBatch``; nothing for a batch without rows.
    """
    if batch.num_rows == 0:
        return
    if _plainly_small(batch, limit):
        yield batch
        return
    ends = np.cumsum(row_sizes(batch))
    first, done = 0, 0
    while first < batch.num_rows:
        last = max(first + 1, int(np.searchsorted(ends, done + limit, side="right")))
        yield batch.slice(first, last - first)
        first, done = last, int(ends[last - 1])


def row_sizes(batch: Any) -> Sizes:
    """Shape (n,): about the encoded bytes of each row."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        sizes += _sizes(column)
    return sizes


def _plainly_small(batch: Any, limit: int) -> bool:
    """Whether the bytes that Arrow counts show already that one slice will do."""
    if not all(is_plain(field.type) for field in batch.schema):
        return False
    overhead = batch.num_rows * sum(_leaves(field.type) for field in batch.schema) * _OVERHEAD
    return bool(batch.nbytes * 2 + overhead <= limit)


@lru_cache(maxsize=4096)
def _leaves(arrow: Any) -> int:
    if at.is_struct(arrow):
        return 1 + sum(_leaves(arrow.field(i).type) for i in range(arrow.num_fields))
    return 1


def _sizes(array: Any) -> Sizes | int:
    """Bytes of each row's cell, as one number where all rows have the same."""
    arrow = array.type
    if isinstance(arrow, pa.BaseExtensionType):
        return _sizes(array.storage)
    if at.is_dictionary(arrow):
        return _dictionary_sizes(array)
    if at.is_run_end_encoded(arrow):
        return _run_sizes(array)
    if at.is_struct(arrow):
        return sum((_sizes(array.field(i)) for i in range(arrow.num_fields)), start=1)
    if at.is_nested(arrow):
        return _nested_sizes(array)
    if _is_bytes(arrow):
        return _byte_sizes(array) + _OVERHEAD
    return 1 if at.is_null(arrow) else 1 + max(1, arrow.bit_width // 8)


def _is_bytes(arrow: Any) -> bool:
    views = at.is_string_view(arrow) or at.is_binary_view(arrow)
    texts = at.is_string(arrow) or at.is_large_string(arrow)
    return bool(views or texts or at.is_binary(arrow) or at.is_large_binary(arrow))


def _byte_sizes(array: Any) -> Sizes:
    if at.is_string_view(array.type) or at.is_binary_view(array.type):
        # A view is 16 bytes, and the first four are the length.
        views = np.frombuffer(array.buffers()[1] or b"", np.int32, len(array) * 4, array.offset * 16)
        return views[::4].astype(np.int64) * valid_mask(array)
    return np.diff(offsets_of(array)).astype(np.int64)


def _dictionary_sizes(array: Any) -> Sizes | int:
    values = _sizes(array.dictionary)
    if isinstance(values, int) or len(values) == 0:
        return values if isinstance(values, int) else 1
    sizes = values[array.indices.fill_null(0).to_numpy()]
    return np.where(valid_mask(array.indices), sizes, 1) if array.indices.null_count else sizes


def _run_sizes(array: Any) -> Sizes | int:
    first, run = run_of_row(array)
    values = _sizes(array.values.slice(first, int(run[-1]) + 1 if len(run) else 0))
    return values if isinstance(values, int) else values[run]


def _nested_sizes(array: Any) -> Sizes:
    arrow = array.type
    if at.is_map(arrow):
        offsets, keys, items = map_ranges(array)
        return _OVERHEAD + _ranges(offsets, _sizes(keys)) + _ranges(offsets, _sizes(items))
    if at.is_list_view(arrow) or at.is_large_list_view(arrow):
        starts, lengths = view_spans(array)
        return _OVERHEAD + _between(starts, starts + lengths, _element_sizes(array.values))
    offsets, values = list_ranges(array)
    return _OVERHEAD + _ranges(offsets, _element_sizes(values))


def _element_sizes(values: Any) -> Sizes | int:
    """Elements of one width are packed without tags."""
    sizes = _sizes(values)
    return max(1, sizes - 1) if isinstance(sizes, int) else sizes


def _ranges(offsets: Sizes, sizes: Sizes | int) -> Sizes:
    return _between(offsets[:-1], offsets[1:], sizes)


def _between(starts: Sizes, ends: Sizes, sizes: Sizes | int) -> Sizes:
    if isinstance(sizes, int):
        return (ends - starts) * sizes
    total = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return np.asarray(total[ends] - total[starts], np.int64)

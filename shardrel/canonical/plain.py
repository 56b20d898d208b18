"""Values out of their clothes: dictionaries, runs, views, extensions and fixed-size lists become plain arrays.

Nothing is copied where the type is plain already. Source: schemas/SPEC.md#record-encoding
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as at

Offsets = npt.NDArray[np.int64]

_LARGE = (at.is_large_list, at.is_large_string, at.is_large_binary, at.is_large_list_view)
_MAX32 = 2**31 - 1


@lru_cache(maxsize=4096)
def is_plain(arrow: Any) -> bool:
    """Whether arrays of the type are plain at every level."""
    if isinstance(arrow, pa.BaseExtensionType) or at.is_dictionary(arrow) or at.is_run_end_encoded(arrow):
        return False
    if at.is_string_view(arrow) or at.is_binary_view(arrow) or at.is_decimal(arrow):
        return at.is_decimal(arrow) and bool(arrow.bit_width == (128 if arrow.precision <= 38 else 256))
    if at.is_list(arrow) or at.is_large_list(arrow):
        return is_plain(arrow.value_type)
    if at.is_map(arrow):
        return is_plain(arrow.key_type) and is_plain(arrow.item_type)
    if at.is_struct(arrow):
        return all(is_plain(arrow.field(i).type) for i in range(arrow.num_fields))
    return not at.is_nested(arrow)


def plain(array: Any) -> Any:
    """The same values as an array of primitives, (large) strings, (large) lists, structs and maps.

    Args:
        array: ``pa.Array`` of any supported type. The result is as large as the decoded values, so
            slice dictionaries and runs of large values first.

    Returns:
        ``pa.Array`` with the same number of rows. Labels of nested fields are not kept.
    """
    arrow = array.type
    if is_plain(arrow):
        return array
    if isinstance(arrow, pa.BaseExtensionType):
        return plain(array.storage)
    if at.is_dictionary(arrow):
        return plain(array.dictionary).take(array.indices)
    if at.is_run_end_encoded(arrow):
        first, run = run_of_row(array)
        return plain(array.values.slice(first, int(run[-1]) + 1 if len(run) else 0)).take(pa.array(run))
    if at.is_string_view(arrow) or at.is_binary_view(arrow):
        return array.cast(pa.large_binary())
    if at.is_decimal(arrow):
        return array.cast((pa.decimal128 if arrow.precision <= 38 else pa.decimal256)(arrow.precision, arrow.scale))
    if at.is_struct(arrow):
        return _plain_struct(array)
    if at.is_map(arrow):
        return _plain_map(array)
    return _plain_list(array)


def run_of_row(array: Any) -> tuple[int, npt.NDArray[np.int64]]:
    """Physical number of the first run, and for each row the run that holds it, counted from that one."""
    ends = array.run_ends.to_numpy()
    run = np.searchsorted(ends, np.arange(array.offset, array.offset + len(array)), side="right")
    first = int(run[0]) if len(run) else 0
    return first, run - first


def offsets_of(array: Any) -> npt.NDArray[Any]:
    """The n + 1 offsets of a (large) string, binary, list or map array, as stored: int32 or int64."""
    large = any(check(array.type) for check in _LARGE)
    buffer = array.buffers()[1]
    dtype = np.dtype(np.int64 if large else np.int32)
    if buffer is None or buffer.size == 0:
        return np.zeros(len(array) + 1, dtype)
    return np.frombuffer(buffer, dtype, len(array) + 1, array.offset * dtype.itemsize)


def list_ranges(array: Any) -> tuple[Offsets, Any]:
    """Offsets from 0 and the element array of a list of any kind; elements under nulls may be among them."""
    arrow = array.type
    if at.is_fixed_size_list(arrow):
        size = arrow.list_size
        return np.arange(len(array) + 1, dtype=np.int64) * size, _child(array, array.offset * size, len(array) * size)
    if at.is_list_view(arrow) or at.is_large_list_view(arrow):
        return _view_ranges(array)
    offsets = offsets_of(array).astype(np.int64)
    first = int(offsets[0])
    return offsets - first, _child(array, first, int(offsets[-1]) - first)


def _child(array: Any, first: int, count: int) -> Any:
    return array.values.slice(first, count)


def _view_ranges(array: Any) -> tuple[Offsets, Any]:
    """Ranges of a list view may overlap, leave gaps and stand in any order: gather them."""
    starts, sizes = view_spans(array)
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    index = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1], dtype=np.int64)
    if not len(index):
        return offsets, array.values.slice(0, 0)
    low = int(index.min())
    near = array.values.slice(low, int(index.max()) + 1 - low)
    return offsets, plain(near).take(pa.array(index - low))


def view_spans(array: Any) -> tuple[Offsets, Offsets]:
    """Start and size of each row of a list view; size 0 where the row is null."""
    dtype = np.dtype(np.int64 if at.is_large_list_view(array.type) else np.int32)
    count, skip = len(array), array.offset * dtype.itemsize
    if count == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, starts, sizes, *_ = array.buffers()
    lengths = np.frombuffer(sizes, dtype, count, skip).astype(np.int64)
    if array.null_count:
        lengths = lengths * valid_mask(array)
    return np.frombuffer(starts, dtype, count, skip).astype(np.int64), lengths


def valid_mask(array: Any) -> npt.NDArray[np.bool_]:
    """Shape (n,): whether each row has a value."""
    mask: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def null_mask(array: Any) -> Any:
    """Boolean ``pa.Array`` of the null rows, None when there are none."""
    return array.is_null() if array.null_count else None


def list_array(offsets: Offsets, values: Any, mask: Any) -> Any:
    """A list array with 32-bit offsets where they fit, else with 64-bit ones."""
    if offsets[-1] <= _MAX32:
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values, mask=mask)
    return pa.LargeListArray.from_arrays(pa.array(offsets), values, mask=mask)


def _plain_list(array: Any) -> Any:
    offsets, values = list_ranges(array)
    return list_array(offsets, plain(values), null_mask(array))


def map_ranges(array: Any) -> tuple[Offsets, Any, Any]:
    """Offsets from 0, keys and items of a map array."""
    offsets = offsets_of(array).astype(np.int64)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    return offsets - first, array.keys.slice(first, count), array.items.slice(first, count)


def _plain_map(array: Any) -> Any:
    offsets, keys, items = map_ranges(array)
    return pa.MapArray.from_arrays(pa.array(offsets.astype(np.int32)), plain(keys), plain(items), mask=null_mask(array))


def _plain_struct(array: Any) -> Any:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    children = [plain(array.field(i)) for i in range(len(names))]
    return pa.StructArray.from_arrays(children, names=names, mask=null_mask(array))

"""Where values lie in Arrow arrays, whatever they are dressed in.

Everything is read from offsets and indices with numpy: pyarrow has no kernels for some nested types, and
some that it has look at values hidden under nulls.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

Positions = npt.NDArray[np.int64]
_OFFSET_WIDTHS = ((pt.is_list, np.int32), (pt.is_map, np.int32), (pt.is_large_list, np.int64))


@dataclass(frozen=True, slots=True)
class Spans:
    """Row i of a list or map holds ``lengths[i]`` elements of each child from ``starts[i]`` on."""

    children: tuple[Any, ...]
    starts: Positions
    lengths: Positions

    @property
    def total(self) -> int:
        """Elements of all rows."""
        return int(self.lengths.sum())

    def positions(self) -> Positions:
        """Position in the children of each row's elements, row after row."""
        before = np.cumsum(self.lengths) - self.lengths
        return np.repeat(self.starts - before, self.lengths) + np.arange(self.total)

    def first_if_contiguous(self) -> int | None:
        """Where the elements begin, if they lie one after another without gaps."""
        used = self.lengths > 0
        if not used.any():
            return 0
        starts = self.starts[used]
        before = np.cumsum(self.lengths[used]) - self.lengths[used]
        return int(starts[0]) if bool((starts == starts[0] + before).all()) else None


def spans(values: Any, valid: Any) -> Spans:
    """Elements of each row of a list of any layout or of a map; none where ``valid`` (a mask) is false."""
    kind, count, at = values.type, len(values), values.offset
    if pt.is_fixed_size_list(kind):
        lengths = np.full(count, kind.list_size, np.int64)
        starts = (np.arange(count, dtype=np.int64) + at) * kind.list_size
    elif pt.is_list_view(kind) or pt.is_large_list_view(kind):
        width = np.int32 if pt.is_list_view(kind) else np.int64
        starts, lengths = (_numbers(values.buffers()[i], width, count, at) for i in (1, 2))
    else:
        width = next(width for check, width in _OFFSET_WIDTHS if check(kind))
        offsets = _numbers(values.buffers()[1], width, count + 1, at) if count else np.zeros(1, np.int64)
        starts, lengths = offsets[:-1], np.diff(offsets)
    children = (values.keys, values.items) if pt.is_map(kind) else (values.values,)
    return Spans(children, starts, lengths if valid is None else np.where(valid, lengths, 0))


def _numbers(buffer: Any, width: Any, count: int, at: int) -> Positions:
    if not count:
        return np.zeros(0, np.int64)
    return np.frombuffer(buffer, width, count, at * np.dtype(width).itemsize).astype(np.int64)


def undressed(values: Any) -> Any:
    """The values without extension clothing."""
    while isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    return values


def folded(values: Any) -> tuple[Any, Positions] | None:
    """Distinct entries and the index of each row's entry (-1: null) of a dictionary or run-end encoded array."""
    if pt.is_dictionary(values.type):
        indices = pc.fill_null(values.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
        return values.dictionary, indices
    if pt.is_run_end_encoded(values.type):
        ends = values.run_ends.to_numpy(zero_copy_only=False)
        rows = np.arange(values.offset, values.offset + len(values))
        return values.values, np.searchsorted(ends, rows, side="right").astype(np.int64)
    return None


def taken(entries: Any, indices: Positions) -> Any:
    """Entries by index, -1 giving null; for arrays without children."""
    if len(indices) and indices.min() >= 0:
        return entries.take(pa.array(indices))
    return entries.take(pa.array(indices, mask=indices < 0))


def weight(values: Any) -> int:
    """Upper estimate of the bytes that encoding takes, dictionaries unfolded; looks at no value."""
    values = undressed(values)
    rows, kind = 9 * len(values), values.type
    if pt.is_dictionary(kind) and len(values.dictionary) == 1 and pt.is_string(kind.value_type):
        # As where records come from often is: known without a look at the indices.
        size = int(pc.binary_length(values.dictionary)[0].as_py() or 0)
        return rows + size * int(len(values) - values.null_count)
    if (fold := folded(values)) is not None:
        return rows + _folded_weight(*fold)
    if pt.is_struct(kind):
        return rows + sum(weight(values.field(i)) for i in range(kind.num_fields))
    if pt.is_nested(kind):
        valid = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
        found = spans(values, valid)
        return rows + sum(_share(weight(child), found.total, len(child)) for child in found.children)
    return rows + int(values.nbytes)


def _share(total: int, part: int, whole: int) -> int:
    return total * part // max(whole, 1)


def _folded_weight(entries: Any, indices: Positions) -> int:
    kind = entries.type
    if pt.is_string(kind) or pt.is_binary(kind) or pt.is_large_string(kind) or pt.is_large_binary(kind):
        sizes = pc.fill_null(pc.binary_length(entries), 0).to_numpy(zero_copy_only=False)
        # How often each entry is used; the first number counts the nulls.
        used = np.bincount(indices + 1, minlength=len(entries) + 1)[1:]
        return int(used @ sizes.astype(np.int64))
    return _share(weight(entries), len(indices), len(entries))

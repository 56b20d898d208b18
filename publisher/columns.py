"""Column encodings: a pure rule on types and on a fixed sample of the data.

Numbers are split into byte streams: smaller, and faster to write and to read than dictionaries
and than plain pages (measured on tokens: half the time of writing). Strings get a dictionary where
values come back often, and lengths before bytes otherwise; never front coding, of which a few bytes can
unfold to any length. Source: schemas/SPEC.md#column-encodings
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.release import ColumnEncoding

SAMPLE_RECORDS = 8192

_DICTIONARY_BYTES = 256 * 1024
_GROUP_BYTES = 32 * 1024 * 1024
_GROUP_RECORDS = 65_536

Encoding = Literal["PLAIN", "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "BYTE_STREAM_SPLIT"]


def sample_positions(records: int) -> npt.NDArray[np.int64]:
    """Places of the sampled records among the ``records`` of a shard, evenly spread."""
    taken = min(records, SAMPLE_RECORDS)
    return np.arange(taken, dtype=np.int64) * records // max(taken, 1)


def column_encodings(sample: Any, packed: Collection[str] = ()) -> tuple[ColumnEncoding, ...]:
    """How each leaf column is written.

    Args:
        sample: ``pa.Table`` of the sampled records in their physical types.
        packed: Columns of it that are packed.

    Raises:
        InvalidInputError: ``input.column-type`` for a packed one whose path is another leaf's too.
    """
    leaves = [leaf for name in sample.column_names for leaf in _leaves(name, sample.column(name).combine_chunks())]
    seen = Counter(path for path, _ in leaves)
    for path in packed:
        if seen[path] > 1:
            raise InvalidInputError(
                ErrorCode.INPUT_COLUMN_TYPE,
                f"column {path!r} cannot be packed: Parquet gives another column the same path",
                column=path,
            )
    encodings = {
        path: _packed(path) if path in packed else _choose(path, values, alone=seen[path] == 1)
        for path, values in leaves
    }
    return tuple(encodings.values())


def row_group_records(logical_bytes: int, records: int) -> int:
    """Records of a row group: about 32 MiB of them, a power of two of at most 65,536."""
    fit = max(1, _GROUP_BYTES * records // max(logical_bytes, 1))
    return min(_GROUP_RECORDS, 1 << (fit.bit_length() - 1))


def _packed(path: str) -> ColumnEncoding:
    return ColumnEncoding(path=path, physical="packed", dictionary=False, encoding="DELTA_LENGTH_BYTE_ARRAY")


def _choose(path: str, values: Any, *, alone: bool) -> ColumnEncoding:
    # Two leaves whose dotted paths are equal share one setting in every Parquet library.
    dictionary = alone and _comes_back(values)
    encoding = _plain_choice(values.type) if alone and not dictionary else "PLAIN"
    return ColumnEncoding(path=path, physical="native", dictionary=dictionary, encoding=encoding)


def _plain_choice(arrow: Any) -> Encoding:
    if at.is_string(arrow) or at.is_binary(arrow):
        return "DELTA_LENGTH_BYTE_ARRAY"
    if at.is_integer(arrow) or at.is_floating(arrow) or at.is_temporal(arrow) or at.is_decimal(arrow):
        return "BYTE_STREAM_SPLIT"
    return "PLAIN"


def _comes_back(values: Any) -> bool:
    """Whether a string column has few enough distinct values for a dictionary page."""
    if not (at.is_string(values.type) or at.is_binary(values.type)):
        return False
    known = len(values) - values.null_count
    distinct = values.drop_null().unique()
    small = int(pc.sum(pc.binary_length(distinct)).as_py() or 0) <= _DICTIONARY_BYTES
    return small and 2 * len(distinct) <= known


def _leaves(path: str, array: Any) -> Iterator[tuple[str, Any]]:
    """Leaf columns of one column, by the path that Parquet gives them, with the sampled values."""
    if at.is_struct(array.type):
        fields = [array.type.field(i).name for i in range(array.type.num_fields)]
        for name, child in zip(fields, array.flatten(), strict=True):
            yield from _leaves(f"{path}.{name}", child)
    elif at.is_map(array.type):
        yield from _leaves(f"{path}.key_value.key", _entries(array, array.keys))
        yield from _leaves(f"{path}.key_value.value", _entries(array, array.items))
    elif at.is_list(array.type):
        yield from _leaves(f"{path}.list.element", array.flatten())
    else:
        yield path, array


def _entries(array: Any, children: Any) -> Any:
    """The keys or items that the rows of a map really hold."""
    as_list = pa.ListArray.from_buffers(
        pa.list_(children.type), len(array), array.buffers()[:2], array.null_count, array.offset, [children]
    )
    return as_list.flatten()

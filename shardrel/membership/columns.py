"""Member columns: the tuple fields of many members, column by column.

Source: schemas/SPEC.md#member-tuples
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Digests = npt.NDArray[np.uint8]
Order = npt.NDArray[np.int64]

FIELDS = ("sample_id", "source_id", "source_version", "split")
RESERVED_PREFIX = "_shardrel_"
# The columns of a shard before its payload.
STORED_FIELDS = tuple(RESERVED_PREFIX + name for name in FIELDS)
SPLIT_COLUMN = STORED_FIELDS[FIELDS.index("split")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Tuple fields of n members; the schema digest is one for all and kept beside.

    Attributes:
        sample_ids: String array without nulls; so are ``source_ids``, ``source_versions`` and
            ``splits``, each plain or dictionary-encoded.
        digests: Logical content digests, shape (n, 32), uint8.
    """

    sample_ids: Any
    source_ids: Any
    source_versions: Any
    splits: Any
    digests: Digests

    def __len__(self) -> int:
        return len(self.digests)

    @property
    def strings(self) -> tuple[Any, Any, Any, Any]:
        """The four string columns, in the order of ``FIELDS``."""
        return self.sample_ids, self.source_ids, self.source_versions, self.splits

    def take(self, order: npt.NDArray[Any]) -> "Members":
        """The members at the given positions, in that order."""
        indices = pa.array(order)
        return _members([column.take(indices) for column in self.strings], self.digests.take(order, axis=0))

    def slice(self, first: int, last: int) -> "Members":
        """The members at positions [first, last); nothing is copied."""
        return _members([column.slice(first, last - first) for column in self.strings], self.digests[first:last])

    def filter(self, keep: npt.NDArray[np.bool_]) -> "Members":
        """The members where ``keep`` is true."""
        mask = pa.array(keep)
        return _members([column.filter(mask) for column in self.strings], self.digests[keep])

    def to_table(self) -> Any:
        """Columns ``FIELDS`` as strings and ``content_digest`` as 32 fixed bytes, none of them null."""
        columns = [plain(column) for column in self.strings] + [fixed_digests(self.digests)]
        types = [pa.string()] * 4 + [pa.binary(32)]
        names = (*FIELDS, "content_digest")
        schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind in zip(names, types, strict=True)])
        return pa.table(columns, schema=schema)


def from_table(table: Any) -> Members:
    """Members of a snapshot part or of a member index part."""
    return _members([combined(table.column(name)) for name in FIELDS], digest_matrix(table.column("content_digest")))


def concat(pieces: Sequence[Members]) -> Members:
    """The members of all pieces, one after another; a column keeps a dictionary that all pieces have."""
    if len(pieces) == 1:
        return pieces[0]
    strings = [_joined(column) for column in zip(*[piece.strings for piece in pieces], strict=True)]
    return _members(strings, np.concatenate([piece.digests for piece in pieces]))


def plain(column: Any) -> Any:
    """A string array in its plain form: 32-bit offsets, no dictionary."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def combined(column: Any) -> Any:
    """One array of a column that may come in chunks."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def fixed_digests(digests: Digests) -> Any:
    """Digests as an Arrow array of 32 fixed bytes; no copy where the matrix is contiguous."""
    matrix = np.ascontiguousarray(digests)
    return pa.Array.from_buffers(pa.binary(32), len(matrix), [None, pa.py_buffer(matrix)])


def digest_matrix(column: Any) -> Digests:
    """The (n, 32) matrix of a column of 32 fixed bytes without nulls; no copy where it is in one chunk."""
    array = combined(column)
    if not len(array):
        return np.empty((0, 32), np.uint8)
    flat = np.frombuffer(array.buffers()[1], np.uint8, len(array) * 32, array.offset * 32)
    return flat.reshape(len(array), 32)


def same_strings(left: Any, right: Any) -> bool:
    """Whether two string columns without nulls hold the same values in the same order."""
    return len(left) == len(right) and not unequal(left, right).any()


def unequal(left: Any, right: Any) -> npt.NDArray[np.bool_]:
    """Where two string columns of one length differ; dictionaries are compared by their few values."""
    if pa.types.is_dictionary(left.type) and pa.types.is_dictionary(right.type):
        known = pc.index_in(right.dictionary, left.dictionary).fill_null(-1).to_numpy()
        apart: npt.NDArray[np.bool_] = left.indices.to_numpy() != known[right.indices.to_numpy()]
        return apart
    return np.asarray(pc.not_equal(plain(left), plain(right)).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _joined(parts: Sequence[Any]) -> Any:
    if all(pa.types.is_dictionary(part.type) for part in parts):
        return pa.concat_arrays(parts)
    return pa.concat_arrays([plain(part) for part in parts])


def _members(strings: Sequence[Any], digests: Digests) -> Members:
    ids, sources, versions, splits = strings
    return Members(sample_ids=ids, source_ids=sources, source_versions=versions, splits=splits, digests=digests)

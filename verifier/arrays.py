"""Columns of many members: put together, moved, and looked at as numbers."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.canonical.sha import Bytes32
from verifier.leaves import codes, plain


def first_above(ids: Any, border: str) -> int:
    """First position whose id is above the border, in UTF-8 byte order, which is that of code points."""
    return bisect_left(range(len(ids)), True, key=lambda at: ids[at].as_py() > border)


def digest_matrix(values: Any) -> Bytes32:
    """The values of a 32-byte binary array as an (n, 32) matrix; no copy."""
    data = values.buffers()[1]
    if data is None:
        return np.empty((0, 32), np.uint8)
    return np.frombuffer(data, np.uint8, len(values) * 32, values.offset * 32).reshape(-1, 32)


def moved(matrix: Bytes32, order: npt.NDArray[np.int64]) -> Bytes32:
    """Rows in another order, moved as whole 32-byte values."""
    return np.ascontiguousarray(matrix).view("V32").ravel()[order].view(np.uint8).reshape(-1, 32)


def joined_context(parts: Sequence[Any]) -> Any:
    """One array of several runs' strings: a dictionary where each of them is one, plain otherwise."""
    if len(parts) == 1:
        return parts[0]
    if not all(pa.types.is_dictionary(part.type) for part in parts):
        return pa.concat_arrays([plain(part) for part in parts])
    entries = pa.concat_arrays([part.dictionary for part in parts]).unique()
    if len(entries) == 1 and not any(part.null_count for part in parts):
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(sum(map(len, parts)), np.int32)), entries)
    spots = [pc.index_in(part.dictionary, value_set=entries).to_numpy()[codes(part)] for part in parts]
    return pa.DictionaryArray.from_arrays(pa.array(np.concatenate(spots).astype(np.int32)), entries)

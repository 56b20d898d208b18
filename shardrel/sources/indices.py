"""Indices of dictionaries as Parquet pages hold them: pyarrow hands them out without a look."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def has_dictionary(kind: Any) -> bool:
    """Whether a type is a dictionary, or holds one at any depth."""
    if pa.types.is_dictionary(kind):
        return True
    return pa.types.is_nested(kind) and any(has_dictionary(kind.field(i).type) for i in range(kind.num_fields))


def in_bounds(array: Any) -> bool:
    """Whether every index of a dictionary, at any depth, names one of its entries."""
    kind = array.type
    if not has_dictionary(kind):
        return True
    if pa.types.is_dictionary(kind):
        found = pc.min_max(array.indices)
        return not found["min"].is_valid or 0 <= found["min"].as_py() <= found["max"].as_py() < len(array.dictionary)
    if pa.types.is_struct(kind):
        return all(in_bounds(array.field(i)) for i in range(kind.num_fields))
    children = (array.keys, array.items) if pa.types.is_map(kind) else (array.values,)
    return all(in_bounds(child) for child in children)

"""Which records the gate's logs name. Source: schemas/SPEC.md#fence-logs."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.screening import named_by_text
from shardrel.gate.fences import FenceSelectors
from shardrel.membership.columns import Members, fixed_digests, plain

Mask = npt.NDArray[np.bool_]
Selectors = FenceSelectors


def named_members(members: Members, selectors: Selectors) -> Mask:
    """Which members are named by what a tuple tells: ids, sources and content digests."""
    mask = _in(members.sample_ids, selectors.sample_ids, pa.string())
    mask |= _in(members.source_ids, selectors.sources, pa.string())
    mask |= _in(fixed_digests(members.digests), selectors.content_digests, pa.binary(32))
    if selectors.source_versions:
        sources = {source for source, _ in selectors.source_versions}
        near = np.flatnonzero(_in(members.source_ids, sources, pa.string()))
        close = members.take(near)
        pairs = zip(plain(close.source_ids).to_pylist(), plain(close.source_versions).to_pylist(), strict=True)
        mask[near] |= np.fromiter((pair in selectors.source_versions for pair in pairs), np.bool_, len(near))
    return mask


def named_texts(payload: Any, text_columns: Sequence[str] | None, selectors: Selectors) -> Mask:
    """Which records are named by the text of one of their text columns.

    Args:
        payload: ``pa.Table`` or ``pa.RecordBatch``.
        text_columns: Declared ones; None means every top-level string column.
        selectors: Of both logs.
    """
    mask = np.zeros(payload.num_rows, np.bool_)
    if not (selectors.text_digests or selectors.shingles):
        return mask
    for name in _string_columns(payload.schema) if text_columns is None else text_columns:
        texts = payload.column(name).to_pylist()
        mask |= named_by_text(texts, selectors.text_digests, selectors.shingles)
    return mask


def _in(column: Any, values: Collection[Any], arrow: Any) -> Mask:
    if not values:
        return np.zeros(len(column), np.bool_)
    found = pc.is_in(column, value_set=pa.array(sorted(values), arrow))
    return np.array(found.to_numpy(zero_copy_only=False), np.bool_)


def _string_columns(schema: Any) -> list[str]:
    return [field.name for field in schema if pa.types.is_string(field.type)]

"""SHA-256 of many byte strings at once, without a Python loop and without the GIL.

Shared by publisher and verifier: a primitive, like the hash function itself.
"""

import threading
from hashlib import sha256
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from datafusion import SessionConfig, SessionContext, col
from datafusion import functions as df

Bytes32 = npt.NDArray[np.uint8]

# Below this a query costs more than a loop.
_SMALL = 768
_BATCH = 1 << 16
_TABLE = "rows"
_HASH = df.sha256(col("row")).alias("digest")


class _Own(threading.local):
    """A context a thread: sharing one would serialise the threads, making one a call costs as much as 2,000 hashes."""

    def __init__(self) -> None:
        self.context = SessionContext(SessionConfig().with_target_partitions(1).with_batch_size(_BATCH))


_OWN = _Own()


def sha256_rows(rows: Any) -> Bytes32:
    """Hash each value of a binary array.

    Args:
        rows: ``pa.Array`` of (large_)binary without nulls, n values.

    Returns:
        Shape (n, 32), uint8: the raw digests in order. Not to be written to.
    """
    if len(rows) <= _SMALL:
        return _few(rows)
    parts = [_digests(batch.column(0)) for batch in _hashed(rows)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def fixed_rows(matrix: npt.NDArray[np.uint8]) -> Any:
    """A binary array whose n values are the rows of a contiguous (n, width) uint8 matrix; no copy.

    The matrix has fewer than 2^31 bytes.
    """
    n, width = matrix.shape
    offsets = np.arange(0, (n + 1) * width, width, dtype=np.int32) if width else np.zeros(n + 1, np.int32)
    return pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(matrix)])


def _few(rows: Any) -> Bytes32:
    n = len(rows)
    if not n:
        return np.empty((0, 32), np.uint8)
    _, offsets, data = rows.buffers()
    width = np.dtype(np.int64 if pa.types.is_large_binary(rows.type) else np.int32)
    borders = np.frombuffer(offsets, width, n + 1, rows.offset * width.itemsize).tolist()
    view = memoryview(data or b"")
    flat = b"".join([sha256(view[start:stop]).digest() for start, stop in pairwise(borders)])
    return np.frombuffer(flat, np.uint8).reshape(n, 32)


def _hashed(rows: Any) -> list[Any]:
    """Record batches of one binary column, in the order of the rows."""
    context = _OWN.context
    frame = context.from_arrow(pa.table({"row": rows}), _TABLE)
    try:
        batches: list[Any] = frame.select(_HASH).collect()
    finally:
        # Else the context would keep every table that it has seen.
        context.deregister_table(_TABLE)
    return batches


def _digests(column: Any) -> Bytes32:
    _, offsets, data = column.buffers()
    first = int(np.frombuffer(offsets, np.int32, 1, column.offset * 4)[0])
    return np.frombuffer(data, np.uint8, len(column) * 32, first).reshape(-1, 32)

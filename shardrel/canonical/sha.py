"""SHA-256 of many byte strings at once, without a Python loop and without the GIL.

Shared by publisher and verifier: a primitive, like the hash function itself.
"""

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from datafusion import SessionConfig, SessionContext, col
from datafusion import functions as df

Bytes32 = npt.NDArray[np.uint8]

_SMALL = 64


def sha256_rows(rows: Any) -> Bytes32:
    """Hash each value of a binary array.

    Args:
        rows: ``pa.Array`` of (large_)binary without nulls, n values.

    Returns:
        Shape (n, 32), uint8: the raw digests in order.
    """
    n = len(rows)
    if n <= _SMALL:
        flat = b"".join([hashlib.sha256(value.as_buffer()).digest() for value in rows])
        return np.frombuffer(flat, np.uint8).reshape(n, 32)
    # One context a call: contexts are cheap, and sharing one would serialise the callers' threads.
    context = SessionContext(SessionConfig().with_target_partitions(1).with_batch_size(1 << 16))
    frame = context.from_arrow(pa.table({"row": rows}))
    hashed = frame.select(df.sha256(col("row")).alias("digest")).collect()
    out = np.empty((n, 32), np.uint8)
    at = 0
    for batch in hashed:
        column = batch.column(0)
        _, offsets, data = column.buffers()
        first = int(np.frombuffer(offsets, np.int32, 1, column.offset * 4)[0])
        count = len(column)
        out[at : at + count] = np.frombuffer(data, np.uint8, count * 32, first).reshape(count, 32)
        at += count
    return out


def fixed_rows(matrix: npt.NDArray[np.uint8]) -> Any:
    """A binary array whose n values are the rows of a contiguous (n, width) uint8 matrix; no copy.

    The matrix has fewer than 2^31 bytes.
    """
    n, width = matrix.shape
    offsets = np.arange(0, (n + 1) * width, width, dtype=np.int32) if width else np.zeros(n + 1, np.int32)
    return pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(matrix)])

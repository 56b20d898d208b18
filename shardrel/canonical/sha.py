"""SHA-256 of many byte strings at once, without a Python loop and without the GIL.

Shared by publisher and verifier: a primitive, like the hash function itself. Three ways to the same digests: hashlib for
few rows, a query for many, and where the processor can, a group at once (``lanes``) for very many.
"""

import threading
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from datafusion import SessionConfig, SessionContext, col
from datafusion import functions as df

from shardrel.canonical import lanes, streams
from shardrel.canonical.lanes import Bytes, Column, Lanes, Places, rows_of, woven
from shardrel.canonical.streams import Message, Streams

Bytes32 = npt.NDArray[np.uint8]
Lengths = npt.NDArray[np.int64]

# Up to here a loop costs less than the lanes, and less than a query.
_FEW_FOR_LANES = 32
_FEW_FOR_QUERY = 768
# Rows of a process for which the lanes are made. To make them costs what they save on about two million; whether there
# will be so many is not always known, and at worst a tenth of a second is lost.
_VERY_MANY = 1 << 20
# Bytes from which a message is worth the way.
_LONG = 1 << 16
_BATCH = 1 << 16
_TABLE = "rows"
_HASH = df.sha256(col("row")).alias("digest")


class _Own(threading.local):
    """A context a thread: sharing one would serialise the threads, making one a call costs as much as 2,000 hashes."""

    def __init__(self) -> None:
        self.context = SessionContext(SessionConfig().with_target_partitions(1).with_batch_size(_BATCH))


_OWN = _Own()


class _Lanes:
    """Makes the lanes when a process has hashed ``after`` rows; until then, and where there are none, ``None``."""

    def __init__(self, after: int) -> None:
        self._lock = threading.Lock()
        self._left = after
        self.made: Lanes | None = None
        self.streams: Streams | None = None

    def expect(self, rows: int) -> None:
        """As many are to come: where the lanes pay for these, the first of them makes them."""
        with self._lock:
            if 0 < self._left <= rows:
                self._left = 1

    def for_rows(self, rows: int) -> Lanes | None:
        """The lanes, if they are ready; the thread that reaches the number makes them, the others go on meanwhile."""
        if self._left > 0:
            with self._lock:
                before = self._left
                self._left = left = before - rows
            if before > 0 >= left:
                self.made, self.streams = lanes.compiled(), streams.compiled()
        return self.made


_LANES = _Lanes(_VERY_MANY)


def expect_rows(rows: int) -> None:
    """Tell that this process is going to hash so many rows, so that it need not find out by hashing them."""
    _LANES.expect(rows)


def sha256_rows(rows: Any) -> Bytes32:
    """Hash each value of a binary array.

    Args:
        rows: ``pa.Array`` of (large_)binary without nulls, n values.

    Returns:
        Shape (n, 32), uint8: the raw digests in order. Not to be written to.
    """
    made = _LANES.for_rows(len(rows))
    if len(rows) <= (_FEW_FOR_LANES if made else _FEW_FOR_QUERY):
        return _few(rows)
    if made and (found := rows_of(made, *_bytes_and_borders(rows))) is not None:
        return found
    parts = [_digests(batch.column(0)) for batch in _hashed(rows)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def sha256_columns(columns: Callable[[], Sequence[Column]], rows: int) -> tuple[Bytes32, Lengths] | None:
    """Hash each row: its bytes of each column, one after another.

    Args:
        columns: Gives them, if they are asked for.
        rows: n.

    Returns:
        Digests, shape (n, 32), uint8, not to be written to, and bytes of each row, shape (n,). None where the rows have
        to be put together first, by the caller, and given to ``sha256_rows``: there is no better way for these.
    """
    made = _LANES.made if rows > _FEW_FOR_LANES else None
    return woven(made, columns(), rows) if made else None


def sha256_long(messages: Sequence[Message]) -> list[bytes]:
    """SHA-256 of each of a few long messages; of those that are given together, two are hashed at a time."""
    made = _LANES.streams
    if made and len(messages) > 1 and min(len(body) for _, body in messages) >= _LONG:
        return made.digests(messages)
    return [_long(head, body) for head, body in messages]


def _long(head: bytes, body: Any) -> bytes:
    state = sha256(head)
    state.update(body)
    return state.digest()


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
    view, borders = _bytes_and_borders(rows)
    flat = b"".join([sha256(view[start:stop].data).digest() for start, stop in pairwise(borders.tolist())])
    return np.frombuffer(flat, np.uint8).reshape(n, 32)


def _bytes_and_borders(rows: Any) -> tuple[Bytes, Places]:
    """The bytes that a binary array points into, and the n + 1 borders of its values in them."""
    _, offsets, data = rows.buffers()
    width = np.dtype(np.int64 if pa.types.is_large_binary(rows.type) else np.int32)
    borders = np.frombuffer(offsets, width, len(rows) + 1, rows.offset * width.itemsize)
    return np.frombuffer(data or b"", np.uint8), borders.astype(np.int64, copy=False)


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

"""Where an object is encoded: in memory that is there from the start.

A buffer that grows is copied, and its pages are cleared anew, each time it doubles.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa


def encoded(write: Callable[[Any], None], room: int) -> Any:
    """What ``write`` writes into an Arrow output stream.

    Args:
        write: Called once more, from the beginning, where there was not room enough.
        room: Bytes that will most likely do. What is not written to takes no memory; where so much cannot be had, as
            under a limit of addresses, the buffer grows.

    Returns:
        ``pa.Buffer``.
    """
    try:
        memory = pa.py_buffer(np.empty(room, np.uint8))
    except MemoryError:
        return _grown(write)
    sink = pa.FixedSizeBufferWriter(memory)
    try:
        write(sink)
    except OSError:  # there is no room left
        return _grown(write)
    return memory.slice(0, sink.tell())


def _grown(write: Callable[[Any], None]) -> Any:
    sink = pa.BufferOutputStream()
    write(sink)
    return sink.getvalue()

"""Where an object is encoded: in memory that is there from the start.

A buffer that grows is copied, and its pages are cleared anew, each time it doubles: that cost a tenth of a publication.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa


def encoded(write: Callable[[Any], None], room: int) -> Any:
    """What ``write`` writes into an Arrow output stream.

    Args:
        write: Called once more where there was not room enough; it writes the same again.
        room: Bytes that will most likely do. Memory that is not written to costs nothing.

    Returns:
        ``pa.Buffer``.
    """
    memory = pa.py_buffer(np.empty(room, np.uint8))
    sink = pa.FixedSizeBufferWriter(memory)
    try:
        write(sink)
    except OSError:  # there is no room left
        growing = pa.BufferOutputStream()
        write(growing)
        return growing.getvalue()
    return memory.slice(0, sink.tell())

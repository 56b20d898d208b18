"""Arrow's full validation of an array, without its cost for ASCII, which most text is.

A look at each string by itself costs many times as much as one at all their bytes.
"""

from typing import Any

import numpy as np
import pyarrow.types as at


def validate(array: Any) -> None:
    """Refuse offsets and indices that point outside their buffers, and text that is not UTF-8.

    Raises:
        pa.ArrowInvalid: What ``array.validate(full=True)`` says.
    """
    array.validate()
    if not _is_ascii(array):
        array.validate(full=True)


def _is_ascii(array: Any) -> bool:
    """Whether an array that has passed the short validation is one of ASCII strings, none null, whose offsets grow."""
    if not len(array) or not (at.is_string(array.type) or at.is_large_string(array.type)):
        return False
    bits, borders, data = array.buffers()
    if bits is not None or array.null_count or data is None:
        return False
    dtype = np.dtype(np.int32 if at.is_string(array.type) else np.int64)
    offsets = np.frombuffer(borders, dtype, len(array) + 1, array.offset * dtype.itemsize)
    if not (offsets[1:] >= offsets[:-1]).all():
        return False
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    return not size or int(np.frombuffer(data, np.uint8, size, first).max()) < 128

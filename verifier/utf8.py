"""Whether text is UTF-8. ASCII is, and one look at all its bytes is cheaper than one at each string."""

from typing import Any

import numpy as np
import pyarrow as pa


def is_ascii(data: Any, first: int, last: int) -> bool:
    """Whether the bytes at [first, last) of a buffer are all ASCII."""
    return first == last or int(np.frombuffer(data, np.uint8, last - first, first).max()) < 128


def valid_text(values: Any) -> bool:
    """Whether every string of an array, or every entry of its dictionary, is valid UTF-8."""
    entries = values.dictionary if pa.types.is_dictionary(values.type) else values
    try:
        entries.validate()
        if not _plainly(entries):
            entries.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _plainly(strings: Any) -> bool:
    """Whether strings without nulls lie one after the other and are ASCII."""
    if not len(strings) or not pa.types.is_string(strings.type):
        return False
    bits, borders, data = strings.buffers()
    if bits is not None:
        return False
    offsets = np.frombuffer(borders, np.int32, len(strings) + 1, strings.offset * 4)
    return bool((np.diff(offsets) >= 0).all()) and is_ascii(data or b"", int(offsets[0]), int(offsets[-1]))

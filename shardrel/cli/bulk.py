"""How this process treats its memory and its threads while it moves a lot of data."""

import ctypes
import os
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# Older versions of glibc refuse more than the second.
_LARGEST = (1 << 30, 32 << 20)
# Milliseconds, read by Arrow's allocator.
_PURGE_DELAY = "MIMALLOC_PURGE_DELAY"
_SWITCH_SECONDS = 0.0005


def for_bulk() -> None:
    """Prepare a process for a verb that moves a lot of data and then ends; before Arrow is loaded.

    Freed memory is kept for some seconds for what comes next, instead of being given back and asked for again, page by
    page: that costs up to a tenth of the time, and keeping it up to a seventh of the memory. What the environment says of it
    is left, and child processes inherit it. Threads that come back from long work outside of the interpreter wait a
    tenth of the usual time for it.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    os.environ.setdefault(_PURGE_DELAY, "10000")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc has it
    if mallopt is not None and any(mallopt(_MMAP_THRESHOLD, largest) for largest in _LARGEST):
        mallopt(_TRIM_THRESHOLD, _LARGEST[0])

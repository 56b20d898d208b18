"""Programs whose data lies between memory that nobody may read: to read it there ends the process."""

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_SETUP = """
import ctypes, mmap
import numpy as np
from hashlib import sha256
page = mmap.PAGESIZE
memory = mmap.mmap(-1, 3 * page)
whole = np.frombuffer(memory, np.uint8)
whole[:] = np.arange(3 * page, dtype=np.int64).astype(np.uint8)
for place in (0, 2 * page):  # nothing before and nothing behind the middle page may be touched
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(whole.ctypes.data + place), page, 0) == 0  # PROT_NONE
middle = whole[page : 2 * page]
"""


def run_guarded(code: str) -> "subprocess.CompletedProcess[str]":
    """Run a program after one that sets up ``middle``, a page of uint8, within ``whole``; it knows numpy and sha256."""
    return run(_SETUP + code)


def run(code: str) -> "subprocess.CompletedProcess[str]":
    """Run a program from the root of the repository."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=_ROOT, check=False)

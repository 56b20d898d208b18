"""Drafts of a local store: durable files that have no key yet, and the removal of those that nobody holds.

Whoever writes a draft holds the system's lock on it until it has a name or is gone. The system drops the locks of a
process that ends, however it ends, and keeps those of one that is only stopped: a draft whose lock is free is nobody's.
Source: schemas/SPEC.md#store
"""

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from shardrel import clock
from shardrel.store import folders

_NAME = re.compile(r"[0-9a-f]{32}")
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def draft(folder: int, data: memoryview, mode: int) -> Iterator[str]:
    """A durable file of the bytes: its name in the folder. It is gone afterwards.

    Effects: one file; a killed process leaves it to ``sweep``.
    """
    file, name = _held(folder)
    try:
        os.fchmod(file, mode)  # whatever the umask says
        while data:
            data = data[os.write(file, data) :]
        folders.flush(file)
        yield name
    finally:
        with suppress(OSError):  # it has a name by now
            os.unlink(name, dir_fd=folder)
        os.close(file)


def sweep(folder: int) -> int:
    """Remove the drafts that nobody holds; how many.

    What cannot be opened, is no file or has another kind of name stays.
    """
    return sum(_removed(folder, name) for name in os.listdir(folder) if _NAME.fullmatch(name))


def _held(folder: int) -> tuple[int, str]:
    """A new file whose lock this process holds, and its name."""
    while True:
        name = clock.fresh_id()
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600, dir_fd=folder)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file).st_nlink:
                return file, name
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # a sweep came between the file and its lock


def _removed(folder: int, name: str) -> bool:
    try:
        file = os.open(name, os.O_RDWR | os.O_NONBLOCK | _FLAGS, dir_fd=folder)
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return False
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(name, dir_fd=folder)
    except OSError:  # held by a writer that lives, or gone by now
        return False
    finally:
        os.close(file)
    return True

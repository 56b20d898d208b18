"""Files that a person asks for by name: whole or not there, and never in the place of a device.

A file appears by a rename once it is durable, with the permissions of the one that it replaces. What is there already and
is no plain file, such as a pipe, is written to as it is; so is the file that stdout or stderr goes to, at its end.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from shardrel import clock
from shardrel.errors import unwritable

Write = Callable[[bytes], None]


def write_file(path: Path, data: bytes) -> None:
    """Write a file.

    Raises:
        InvalidInputError, UnavailableError: As ``unwritable``.
    """
    with writing(path) as write:
        write(data)


@contextmanager
def writing(path: Path) -> Iterator[Write]:
    """Write a file piece by piece; where the block does not come to its end the old one stays, or none.

    Raises:
        InvalidInputError, UnavailableError: As ``unwritable``. What else the block raises goes on as it is.

    Effects: a file beside it until then.
    """
    with _told(path):
        # By its own name: where /dev/stdout is a pipe, what its link says is the name of nothing.
        direct = path.exists() and (not path.is_file() or _is_stream(path))
        target = Path(os.path.realpath(path))
        at = path if direct else target.with_name(f".{target.name[:100]}.{clock.fresh_id()}.part")
        file = at.open("ab" if direct else "xb")
    ended = False
    try:
        yield lambda data: _write(path, file, data)
        with _told(path):
            _end(file, at, None if direct else target)
        ended = True
    finally:
        if not ended:
            _give_up(file, None if direct else at)


def _is_stream(path: Path) -> bool:
    """Whether it is what this process's stdout or stderr goes to; other things may be in it."""
    found = path.stat()
    for number in (1, 2):
        with suppress(OSError):
            if os.path.samestat(found, os.fstat(number)):
                return True
    return False


def _write(path: Path, file: BinaryIO, data: bytes) -> None:
    with _told(path):
        file.write(data)


def _end(file: BinaryIO, at: Path, target: Path | None) -> None:
    file.flush()
    if target is not None:
        if target.exists():
            os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
        os.fsync(file.fileno())
    file.close()
    if target is not None:
        at.replace(target)


def _give_up(file: BinaryIO, at: Path | None) -> None:
    with suppress(OSError):  # what it still holds is not wanted any more
        file.close()
    if at is not None:
        at.unlink(missing_ok=True)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        raise unwritable(path, err) from err

"""Files that a person asks for by name: whole or not there, and never in the place of a device.

A file appears by a rename once it is durable. What is there already and is no plain file, such as ``/dev/stdout`` or a
pipe, is written to as it is.
"""

import os
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
        target = Path(os.path.realpath(path))
        direct = target.exists() and not target.is_file()
        at = target if direct else target.with_name(f".{target.name[:100]}.{clock.fresh_id()}.part")
        file = at.open("wb" if direct else "xb")
    ended = False
    try:
        yield lambda data: _write(path, file, data)
        with _told(path):
            _end(file, at, None if direct else target)
        ended = True
    finally:
        if not ended:
            _give_up(file, None if direct else at)


def _write(path: Path, file: BinaryIO, data: bytes) -> None:
    with _told(path):
        file.write(data)


def _end(file: BinaryIO, at: Path, target: Path | None) -> None:
    file.flush()
    if target is not None:
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

"""Bytes inside of a file, read when they are asked for. Source: schemas/SPEC.md#checkpoint-exchange."""

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shardrel.errors import ErrorCode, InvalidInputError


class FileSlice:
    """A part of a file, or all of it where no length is given.

    Raises:
        InvalidInputError: ``input.no-such-file``, ``input.invalid``; ``input.corrupt``: the file ends before it.
    """

    def __init__(self, path: Path, start: int = 0, length: int | None = None) -> None:
        self._path, self._start = path, start
        try:
            there = os.path.getsize(path)
        except FileNotFoundError as err:
            raise InvalidInputError(ErrorCode.INPUT_NO_SUCH_FILE, f"{path} is not there", path=str(path)) from err
        except (OSError, ValueError) as err:
            raise self._unreadable() from err
        self.size = there - start if length is None else length
        if self.size < 0 or start + self.size > there:
            raise InvalidInputError(ErrorCode.INPUT_CORRUPT, f"{path} ends too early", path=str(path))

    def read(self, start: int, length: int) -> bytes:
        """Bytes of the slice: fewer where it ends, none before it begins."""
        wanted = min(length, self.size - start)
        if start < 0 or wanted <= 0:
            return b""
        try:
            with open(self._path, "rb") as file:
                return os.pread(file.fileno(), wanted, self._start + start)
        except OSError as err:
            raise self._unreadable() from err

    def mapped(self, start: int, length: int) -> npt.NDArray[np.uint8]:
        """Bytes of the slice, mapped as long as somebody holds them."""
        try:
            return np.memmap(self._path, np.uint8, "r", self._start + start, (length,))
        except (OSError, ValueError) as err:
            raise self._unreadable() from err

    def _unreadable(self) -> InvalidInputError:
        return InvalidInputError(ErrorCode.INPUT_INVALID, f"{self._path} can't be read", path=str(self._path))

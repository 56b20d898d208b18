"""States of a disk as folders: rebuilt, and read. Source: schemas/SPEC.md#power-loss."""

import os
import shutil
from pathlib import Path

from shardrel.lab.power.disk import Image

_MEMORY = Path("/dev/shm")  # noqa: S108 (fresh folders are made in it)
_ROOM = 1 << 30


def memory() -> Path | None:
    """A folder in memory, where there is one with room: nothing that is rebuilt needs to outlive its process."""
    if not os.access(_MEMORY, os.W_OK):
        return None
    room = os.statvfs(_MEMORY)
    return _MEMORY if room.f_bavail * room.f_frsize >= _ROOM else None


class Rebuilder:
    """Makes one folder after the other of states that have nearly all of their files in common.

    Bytes are written once and linked from then on: what recovers never writes into a file that has a name. Permissions
    are those that a local store makes files and folders with.
    """

    def __init__(self, scratch: Path) -> None:
        self._pool = scratch / "bytes"
        self._pool.mkdir(mode=0o700)
        self._kept: dict[bytes, Path] = {}

    def build(self, image: Image, folder: Path) -> None:
        """Make a folder of a state; one that is there goes first.

        Effects: as said; files of the pool.
        """
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        for path in sorted(image):
            data, at = image[path], folder / path
            if data is None:
                at.mkdir(mode=0o700)
            elif data:
                os.link(self._file(data), at)
            else:  # empty files are locks and the like: no two folders may share them
                _write(at, b"")

    def _file(self, data: bytes) -> Path:
        if data not in self._kept:
            self._kept[data] = self._pool / str(len(self._kept))
            _write(self._kept[data], data)
        return self._kept[data]


def read_image(folder: Path) -> Image:
    """The files and folders below a folder."""
    return {
        path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")
    }


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(data)

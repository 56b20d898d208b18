"""Files of a host's cache: leased while in use, bounded, safe among processes. Source: schemas/SPEC.md#host-cache.

Every guard is a lock of the kernel on an open file (``flock``), so a killed process holds none. A file that is
mapped keeps a shared lock for as long as the mapping lives; whoever makes room takes only what it can lock alone.
"""

import fcntl
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from shardrel.clock import fresh_id, now_ns

KINDS = ("sha256", "decoded")
"""Folders of entries: stored bytes by their digest, decoded columns by their key."""

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class _Found:
    path: Path
    size: int
    used: int


@dataclass(frozen=True, slots=True)
class Mapped:
    """A mapped file and what the kernel says of it."""

    data: mmap.mmap | bytes
    facts: os.stat_result

    @property
    def identity(self) -> tuple[int, int, int, int]:
        """Changes with another file under the name, and when the file is written to."""
        return self.facts.st_dev, self.facts.st_ino, self.facts.st_size, self.facts.st_mtime_ns


class CacheFolder:
    """A folder that the processes of a host share.

    Layout: ``<kind>/<2 hex>/<64 hex>``, ``quarantine/<64 hex>.<id>``, ``locks/<name>``. An entry gets its name by a
    rename after it was written; a killed writer leaves at most a file that ends in ``.part``, which the
    next one who makes room removes.

    Attributes:
        limit: Bytes that the entries may take together, or None. What is in use is never taken, so the
            entries in use may pass it.
        evicted: Entries that this process removed to make room.
    """

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        self.folder = folder
        self.limit = limit
        self.evicted = 0

    def path(self, kind: str, name: str) -> Path:
        """Where an entry is."""
        return self.folder / kind / name[:2] / name

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """One process of the host at a time makes or fetches an entry; the lock dies with its holder."""
        with self._locked(name, fcntl.LOCK_EX):
            yield

    def open(self, path: Path) -> int | None:
        """An open descriptor with a lease, or None; who closes it gives the lease back.

        The entry counts as used now.
        """
        while True:
            try:
                handle = os.open(path, _OPEN)
            except FileNotFoundError:
                return None
            fcntl.flock(handle, fcntl.LOCK_SH)
            facts = os.fstat(handle)
            if facts.st_nlink > 0:
                with suppress(OSError):  # a folder that is read-only serves what it has
                    os.utime(handle, ns=(now_ns(), facts.st_mtime_ns))
                return handle
            os.close(handle)  # it was evicted between the two calls

    def map(self, path: Path) -> "Mapped | None":
        """An entry's bytes, privately; the lease lasts as long as the mapping, which keeps the open file itself."""
        handle = self.open(path)
        if handle is None:
            return None
        try:
            facts = os.fstat(handle)
            data = mmap.mmap(handle, 0, access=mmap.ACCESS_COPY) if facts.st_size else b""
            return Mapped(data, facts)
        finally:
            os.close(handle)

    def install(self, path: Path, size: int, write: Callable[[BinaryIO], object]) -> None:
        """Make an entry of about ``size`` bytes; its name appears once it is whole.

        It is not forced to the disk: every entry is checked before it is used, and waiting for disks would make a first
        epoch as slow as they are.

        Effects: may evict others; a crash leaves a ``.part`` file or the entry.
        """
        self.make_room(size)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = path.with_name(f"{path.name}.{fresh_id()}.part")
        with self._locked("room", fcntl.LOCK_SH):
            file = os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
            fcntl.flock(file, fcntl.LOCK_EX)
        with file:
            write(file)
            file.flush()
            os.replace(part, path)

    def quarantine(self, path: Path) -> None:
        """Set a wrong entry aside; never served again."""
        aside = self.folder / "quarantine"
        aside.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileNotFoundError):
            os.replace(path, aside / f"{path.name}.{fresh_id()}")

    def make_room(self, size: int) -> None:
        """Remove what was quarantined and what was used longest ago until ``size`` more bytes fit in."""
        if self.limit is None:
            return
        with self._locked("room", fcntl.LOCK_EX):
            found = sorted(self._entries(), key=lambda one: (one.used, one.path))
            over = sum(one.size for one in found) + size - self.limit
            for one in found:
                dead = one.path.name.endswith(".part")
                if (over > 0 or dead) and _remove_unused(one.path):
                    over -= one.size
                    self.evicted += not dead

    def _entries(self) -> Iterator[_Found]:
        places = [self.folder / "quarantine"]
        for kind in KINDS:
            with suppress(FileNotFoundError):
                places += [Path(one.path) for one in os.scandir(self.folder / kind) if one.is_dir()]
        for place in places:
            with suppress(FileNotFoundError):
                for one in os.scandir(place):
                    with suppress(FileNotFoundError):
                        facts = one.stat(follow_symlinks=False)
                        first = place.name == "quarantine"
                        yield _Found(Path(one.path), facts.st_size, 0 if first else facts.st_atime_ns)

    @contextmanager
    def _locked(self, name: str, kind: int) -> Iterator[None]:
        locks = self.folder / "locks"
        locks.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(locks / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, kind)
            yield
        finally:
            os.close(handle)


def _remove_unused(path: Path) -> bool:
    """Remove a file unless somebody uses or writes it."""
    try:
        handle = os.open(path, _OPEN)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True

"""Local cache of a host, addressed by digest. Source: schemas/SPEC.md#runs.

The name of an entry is the digest of its bytes, so a moved alias or a changed shard can't be served
from an old entry. What is returned are the very bytes that were hashed.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shardrel.clock import fresh_id
from shardrel.digest import digest_of, raw_digest
from shardrel.errors import ErrorCode, UnavailableError
from shardrel.records.descriptor import Descriptor
from shardrel.store.objects import get
from shardrel.store.port import Store


class ShardCache:
    """A folder shared by the processes of a host, in front of a store.

    Layout: ``sha256/<2 hex>/<64 hex>``, ``quarantine/<64 hex>.<id>``, ``locks/<64 hex>``. An entry gets its
    name by a rename after it was checked and synced; a crash leaves at most a file that ends in ``.part``.

    Attributes:
        corrupt: Entries that this process found with other bytes than their name says.
    """

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self.store = store
        self.corrupt = 0

    def read(self, descriptor: Descriptor) -> bytes:
        """Bytes of an object, hashed on this very call; from the folder, else from the store.

        Raises:
            NotFoundError, IntegrityError, UnavailableError: As ``shardrel.store.objects.get``; and
                ``store.unavailable`` when the folder can't be used.

        Effects: may move a corrupt entry to ``quarantine/`` and create a checked one.
        """
        name = raw_digest(descriptor.digest).hex()
        try:
            with self._alone(name):
                return self._read_alone(name, descriptor)
        except OSError as err:
            raise UnavailableError(
                ErrorCode.STORE_UNAVAILABLE,
                "the cache folder can't be read or written",
                reason=os.strerror(err.errno or 0),
            ) from err

    def _read_alone(self, name: str, descriptor: Descriptor) -> bytes:
        path = self.folder / "sha256" / name[:2] / name
        found = _read_bounded(path, descriptor.size)
        if found is not None and digest_of(found) == descriptor.digest:
            return found
        if found is not None:
            self._quarantine(path, name)
        data = get(self.store, descriptor)
        _install(path, data)
        return data

    def _quarantine(self, path: Path, name: str) -> None:
        self.corrupt += 1
        aside = self.folder / "quarantine"
        aside.mkdir(parents=True, exist_ok=True)
        os.replace(path, aside / f"{name}.{fresh_id()}")

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """One process of the host at a time checks or fetches an entry; the lock dies with its holder."""
        locks = self.folder / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        handle = os.open(locks / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _read_bounded(path: Path, size: int) -> bytes | None:
    """At most one byte more than expected: enough to know that an entry is too long."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read(size + 1)


def _install(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{fresh_id()}.part")
    with open(part, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)

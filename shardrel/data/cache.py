"""Local cache of a host, addressed by digest. Source: schemas/SPEC.md#host-cache.

The name of an entry is the digest of its bytes, so a moved alias or a changed shard can't be served
from an old entry. What is returned are the very bytes that were hashed.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shardrel.data.counts import Counts
from shardrel.data.folder import CacheFolder
from shardrel.digest import digest_of, raw_digest
from shardrel.errors import ErrorCode, UnavailableError
from shardrel.records.descriptor import Descriptor
from shardrel.store.objects import get
from shardrel.store.port import Store


class ShardCache:
    """A folder shared by the processes of a host, in front of a store.

    Attributes:
        files: The folder, which also holds what was decoded.
        counts: Of what this process found and did; a worker of a loader counts where its rank can see it.
    """

    def __init__(self, folder: Path, store: Store, *, limit: int | None = None) -> None:
        self.files = CacheFolder(folder, limit)
        self.store = store
        self.counts = Counts()

    @property
    def corrupt(self) -> int:
        """Entries that this process found with other bytes than their name says."""
        return self.counts.get("corrupt")

    @property
    def fetched(self) -> int:
        """Bytes that this process read from the store."""
        return self.counts.get("fetched")

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self.files.folder

    def read(self, descriptor: Descriptor) -> bytes:
        """Bytes of an object, hashed on this very call; from the folder, else from the store.

        Raises:
            NotFoundError, IntegrityError, UnavailableError: As ``shardrel.store.objects.get``; and
                ``store.unavailable`` when the folder can't be used.

        Effects: may move a corrupt entry to ``quarantine/``, create a checked one and evict others.
        """
        name = raw_digest(descriptor.digest).hex()
        with usable(), self.files.alone(name):
            return self._read_alone(name, descriptor)

    def set_aside(self, path: Path) -> None:
        """Quarantine a wrong entry and count it."""
        self.counts.add("corrupt")
        self.files.quarantine(path)

    def _read_alone(self, name: str, descriptor: Descriptor) -> bytes:
        path = self.files.path("sha256", name)
        found = self._read_bounded(path, descriptor.size)
        if found is not None and digest_of(found) == descriptor.digest:
            return found
        if found is not None:
            self.set_aside(path)
        data = get(self.store, descriptor)
        self.counts.add("fetched", len(data))
        self.files.install(path, len(data), lambda file: file.write(data))
        return data

    def _read_bounded(self, path: Path, size: int) -> bytes | None:
        """At most one byte more than expected: enough to know that an entry is too long."""
        handle = self.files.open(path)
        if handle is None:
            return None
        with os.fdopen(handle, "rb") as file:
            return file.read(size + 1)


@contextmanager
def usable() -> Iterator[None]:
    """Say of a folder that can't be read or written what it is.

    Raises:
        UnavailableError: ``store.unavailable``.
    """
    try:
        yield
    except OSError as err:
        raise UnavailableError(
            ErrorCode.STORE_UNAVAILABLE,
            "the cache folder can't be read or written",
            reason=os.strerror(err.errno or 0),
        ) from err

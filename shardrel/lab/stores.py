"""Where the stores of a drill are: folders of its bundle, or prefixes on a server. Source: schemas/SPEC.md#crash-lab."""

import functools
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shardrel.errors import ErrorCode, UnavailableError
from shardrel.lab.plain_versions import PlainVersions
from shardrel.lab.tasks import Server
from shardrel.store.local import LocalStore
from shardrel.store.open import open_store
from shardrel.store.port import ObjectKey, Store, Written

STORES = ("reference", "crash", "continued")
_MAX_BYTES = 1 << 30


def open_at(url: str, server: Server | None) -> Store:
    """The store at a URL, or in a folder where there is no server."""
    return LocalStore(url) if server is None else _on_a_server(url, server)


@functools.cache
def _on_a_server(url: str, server: Server) -> Store:
    """Once a process, for a client is slow to make."""
    found = open_store(url, endpoint_url=server.endpoint_url, quoted_tokens=server.quoted_tokens)
    return PlainVersions(found)


class Stores(Protocol):
    """The three stores of a drill, by their names."""

    @property
    def server(self) -> Server | None:
        """Where they are; null for folders."""
        ...

    @property
    def base(self) -> str:
        """What the URLs of all begin with; a path where there is no server."""
        ...

    def url(self, name: str) -> str:
        """Of one of them."""
        ...

    def copy(self, source: str, target: str) -> None:
        """Make an independent store with the same content."""
        ...

    def settle(self, folder: Path) -> None:
        """See to it that all of them lie in a folder, as a bundle has them."""
        ...


@dataclass(frozen=True, slots=True)
class FolderStores:
    """Local stores, side by side in a folder."""

    folder: Path

    @property
    def server(self) -> Server | None:
        """None."""
        return None

    @property
    def base(self) -> str:
        """The folder."""
        return str(self.folder)

    def url(self, name: str) -> str:
        """Path of a store."""
        return str(self.folder / name)

    def copy(self, source: str, target: str) -> None:
        """Link the files, for a local store never writes into one that has a name.

        Its lock and its drafts stay behind.
        """
        root = self.folder / source
        shutil.copytree(root, self.folder / target, copy_function=os.link, ignore=_left_behind(root))

    def settle(self, folder: Path) -> None:
        """They lie there."""


@dataclass(frozen=True, slots=True)
class ServerStores:
    """Prefixes of a bucket, below one URL.

    Attributes:
        base: ``s3://bucket/prefix``.
    """

    base: str
    server: Server

    def url(self, name: str) -> str:
        """``s3://bucket/prefix/name``."""
        return f"{self.base}/{name}"

    def copy(self, source: str, target: str) -> None:
        """Read and write every object."""
        copy_objects(open_at(self.url(source), self.server), open_at(self.url(target), self.server))

    def settle(self, folder: Path) -> None:
        """Copy all of them into local stores."""
        for name in STORES:
            copy_objects(open_at(self.url(name), self.server), LocalStore(folder / name))


def copy_objects(source: Store, target: Store) -> None:
    """Write everything that a store lists to an empty one.

    Raises:
        UnavailableError: ``store.unavailable`` where an object is gone meanwhile, or cannot be written.
    """
    for key in sorted(source.list("")):
        found = source.read(key, max_bytes=_MAX_BYTES)
        if found is None or not _write(target, key, found.data):
            raise UnavailableError(ErrorCode.STORE_UNAVAILABLE, "a store could not be copied", key=key)


def _write(target: Store, key: ObjectKey, data: bytes) -> bool:
    mutable = key.endswith(("/state", "/probe"))
    outcome = target.swap(key, data, None) if mutable else target.create(key, data)
    return isinstance(outcome, Written)


def _left_behind(root: Path) -> Callable[[str, list[str]], set[str]]:
    def ignore(folder: str, names: list[str]) -> set[str]:
        return {"lock", "tmp"} & set(names) if Path(folder) == root else set()

    return ignore

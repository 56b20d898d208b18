"""The local store: a folder whose writes are atomic and durable. Source: schemas/SPEC.md#store

Objects appear by ``link(2)`` of a file that is already durable, the gate state by ``rename(2)``
under a lock; then the folder is made durable. A killed process leaves at most a file below ``tmp/``, which the first
write of a later one removes.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, IntegrityError, UnavailableError
from shardrel.store import drafts, folders
from shardrel.store.layout import check_key, check_prefix, is_key
from shardrel.store.port import (
    Address,
    AlreadyPresent,
    Conflict,
    CreateOutcome,
    Looked,
    Lost,
    ObjectKey,
    Stored,
    SwapOutcome,
    Token,
    Unknown,
    Written,
)

_LOCK_PATIENCE = 60.0
_PIECE = 1 << 20
_NOTHING_LANDED = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EXDEV, errno.EMLINK, errno.ENOTSUP}
)


class LocalStore:
    """A store in a folder of this machine (or of a shared POSIX file system).

    The folder is made by the first write. New folders and files can be written by their owner
    alone and take the read permissions of the root. Threads and processes may share it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.path.abspath(os.fspath(path))
        self._durable: set[tuple[str, int]] = set()
        self._seen: dict[str, str] = {}
        self._rooted = False
        self._swept = False
        self._place: tuple[int, int] | None = None
        self._held = False

    @property
    def url(self) -> str:
        """``file://`` and the absolute path."""
        return "file://" + self._path

    @property
    def address(self) -> Address:
        """For another process."""
        return Address(url=self._path, endpoint_url=None, quoted_tokens=True)

    def create(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        """Write only if the key is absent.

        Effects: a file below ``tmp/``, the object, its folder; a crash leaves the object whole or absent.
        """
        folder_path, name = check_key(key).rsplit("/", 1)
        with folders.translated(), self._root() as root, self._made(root, folder_path) as folder:
            while (same := _holds(folder, name, data)) is None:
                if landed := self._install(root, folder, key, data):
                    return landed
                # Somebody's object came first; it may even have been deleted again.
            return AlreadyPresent(_version(key, data)) if same else Conflict()

    def read(self, key: ObjectKey, *, max_bytes: int, version: str | None = None) -> Stored | None:
        """Read a file. A digest-addressed file is not hashed here: whoever reads by descriptor does that.

        Effects: its name is durable, unless it is a digest.
        """
        folder_path, name = check_key(key).rsplit("/", 1)
        with folders.translated(), self._entered(folder_path) as folder:
            data = None if folder is None else _read(folder, name, max_bytes)
            if folder is None or data is None:
                return None
            found = _version(key, data)
            self._settle(folder, key, found)
        return Stored(data, found, Token(found)) if version in (None, found) else None

    def look(self, key: ObjectKey, *, first: int = 0, version: str | None = None) -> Looked | None:
        """Look at a file. One whose name is no digest is read whole, as its bytes name its version."""
        folder_path, name = check_key(key).rsplit("/", 1)
        with folders.translated(), self._entered(folder_path) as folder:
            found = None if folder is None else _look(folder, key, name, first)
            if folder is not None and found is not None:
                self._settle(folder, key, found.version)
        return found if found is None or version in (None, found.version) else None

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        """Replace the bytes, under the store's lock, if the token matches.

        Effects: a file below ``tmp/``, the object, its folder; a crash leaves the old bytes or the new ones.
        """
        folder_path, name = check_key(key).rsplit("/", 1)
        with (
            folders.translated(),
            self._root() as root,
            self._made(root, folder_path) as folder,
            folders.locked(root, _LOCK_PATIENCE),
        ):
            current = _read(folder, name, None)
            if expected != (None if current is None else _version(key, current)):
                return Lost()
            return self._install(root, folder, key, data, replace=current is not None) or Lost()

    def list(self, prefix: str) -> Iterator[ObjectKey]:
        """Keys below a prefix. Links and names outside the layout are left out."""
        folder_path = check_prefix(prefix).rpartition("/")[0]
        with folders.translated(), self._entered(folder_path) as folder:
            if folder is not None:
                for name in _walk(folder, folder_path):
                    if name.startswith(prefix) and is_key(name):
                        yield ObjectKey(name)

    def delete(self, key: ObjectKey, version: str) -> bool:
        """Remove the file if it is this version: True when the version is gone, False when the file is immutable."""
        folder_path, name = check_key(key).rsplit("/", 1)
        with folders.translated(), self._entered("") as root, self._entered(folder_path) as folder:
            if root is None or folder is None:
                return True
            with folders.locked(root, _LOCK_PATIENCE):
                current = _read(folder, name, None)
                return current is None or _version(key, current) != version or _unlink(folder, name)

    def drop_folder(self, prefix: str) -> None:
        """Remove the folder of keys with this prefix if it is empty; nobody may write there meanwhile."""
        parent, name = check_prefix(prefix).rstrip("/").rsplit("/", 1)
        with folders.translated(), self._entered(parent) as folder:
            if folder is not None:
                with suppress(OSError):  # it holds something, or is gone
                    os.rmdir(name, dir_fd=folder)

    def passed(self, step: str, key: ObjectKey) -> None:
        """A write has come past a step: ``file-fsync``, ``rename``, ``folder-fsync``. A crash laboratory stops here."""

    def _install(
        self, root: int, folder: int, key: ObjectKey, data: bytes | memoryview, *, replace: bool = False
    ) -> Written | Unknown | None:
        """Give a durable draft its name, durably; None where the name is taken and may not be replaced."""
        name = key.rsplit("/", 1)[1]
        with self._draft(root, data) as (tmp, draft):
            self.passed("file-fsync", key)
            try:
                if replace:
                    os.rename(draft, name, src_dir_fd=tmp, dst_dir_fd=folder)
                else:
                    os.link(draft, name, src_dir_fd=tmp, dst_dir_fd=folder, follow_symlinks=False)
            except FileExistsError:
                return None
            except OSError as err:
                if err.errno in _NOTHING_LANDED:
                    raise
                return Unknown(folders.sentence(err))
            self.passed("rename", key)
        try:
            folders.flush(folder)
            self.passed("folder-fsync", key)
        except OSError as err:  # whatever it is: the name is there, and may be gone after a crash
            return Unknown(folders.sentence(err))
        self._known(key, version := _version(key, data))
        return Written(version, Token(version))

    @contextmanager
    def _root(self) -> Iterator[int]:
        root = self._opened()
        if root is None:
            root = folders.make_root(self._path)
        try:
            if not self._rooted:
                folders.flush_above(self._path)
                self._rooted = True
            yield root
        finally:
            os.close(root)

    def _opened(self) -> int | None:
        """The root, or None when there is none yet.

        One that was there and is gone, or lies empty in another's place, or where it held something, is no empty
        store: its disk is away, and what is on it must not be taken for deleted.
        """
        known, held = self._place, self._held  # before the look: another thread may make the folder in between
        root = folders.open_root(self._path)
        place, bare = (None, True) if root is None else folders.place(root)
        if bare and (held or known not in (None, place)):
            if root is not None:
                os.close(root)
            raise UnavailableError(ErrorCode.STORE_UNAVAILABLE, "the store's folder is gone: is its disk still there?")
        if place is not None:
            self._place, self._held = place, held or not bare
        return root

    @contextmanager
    def _made(self, root: int, path: str) -> Iterator[int]:
        """The folder at a path, made where absent, durable in its parents."""
        mode = folders.permissions(root) & 0o755 | 0o700
        at = os.dup(root)
        try:
            for part in path.split("/"):
                parent, at = at, folders.make(at, part, mode)
                try:
                    self._flush_once(parent, part, at)
                finally:
                    os.close(parent)
            yield at
        finally:
            os.close(at)

    def _flush_once(self, parent: int, name: str, child: int) -> None:
        """Whoever made the folder may have died before its name was durable."""
        known = (name, os.fstat(child).st_ino)
        if known not in self._durable:
            folders.flush(parent)
            self._durable.add(known)

    def _settle(self, folder: int, key: str, version: str) -> None:
        """Nobody may act on a name that a loss of power takes back: whoever gave it may have died before it was durable.

        What a digest names is acted on only where something else named it, which was made when it was durable.
        """
        if not key.startswith("objects/") and self._seen.get(key) != version:
            beside = os.listdir(folder) if key.startswith("attestations/") else []
            folders.flush_read(folder)
            self._known(key, version)
            # Whoever reads one envelope reads the others; each is named by its digest, which is its version.
            self._seen.update({f"{key.rpartition('/')[0]}/{name}": f"sha256:{name}" for name in beside})

    def _known(self, key: str, version: str) -> None:
        if not key.startswith("objects/"):
            self._seen[key] = version

    @contextmanager
    def _entered(self, path: str) -> Iterator[int | None]:
        """The folder at a path, or None when it is absent."""
        at = self._opened()
        try:
            for part in path.split("/") if path else ():
                if at is None:
                    break
                parent, at = at, None
                try:
                    at = folders.enter(parent, part)
                finally:
                    os.close(parent)
            yield at
        finally:
            if at is not None:
                os.close(at)

    @contextmanager
    def _draft(self, root: int, data: bytes | memoryview) -> Iterator[tuple[int, str]]:
        """A durable file of the bytes without a key yet: its folder and name. It is gone afterwards."""
        with self._made(root, "tmp") as tmp:
            if not self._swept:
                self._swept = True
                drafts.sweep(tmp)
            with drafts.draft(tmp, _octets(data), folders.permissions(root) & 0o644 | 0o600) as name:
                yield tmp, name


def _version(key: ObjectKey, data: bytes | memoryview) -> str:
    """A digest-addressed key names its version; the bytes of any other key do."""
    return "sha256:" + key.rsplit("/", 1)[1] if key.startswith("objects/") else digest_of(data)


def _octets(data: bytes | memoryview) -> memoryview:
    return memoryview(data).cast("B") if len(data) else memoryview(b"")


def _read(folder: int, name: str, max_bytes: int | None) -> bytes | None:
    file = folders.open_file(folder, name)
    if file is None:
        return None
    try:
        size = os.fstat(file).st_size
        if max_bytes is not None and size > max_bytes:
            raise IntegrityError(
                ErrorCode.STORAGE_TOO_LARGE, "an object has more bytes than expected", size=size, limit=max_bytes
            )
        return _read_exactly(file, size)
    finally:
        os.close(file)


def _look(folder: int, key: ObjectKey, name: str, first: int) -> Looked | None:
    file = folders.open_file(folder, name)
    if file is None:
        return None
    try:
        size = os.fstat(file).st_size
        start = _read_exactly(file, min(size, first) if key.startswith("objects/") else size)
        return Looked(size, _version(key, start), start[:first])
    finally:
        os.close(file)


def _read_exactly(file: int, size: int) -> bytes:
    data = os.read(file, size)
    if len(data) == size:
        return data
    pieces = [data]
    while pieces[-1] and (rest := size - sum(map(len, pieces))):
        pieces.append(os.read(file, rest))  # one call reads at most 2 GiB
    return b"".join(pieces)


def _holds(folder: int, name: str, data: bytes | memoryview) -> bool | None:
    """Whether the key holds these bytes, then durably; None when it is absent. Reads piece by piece."""
    file = folders.open_file(folder, name)
    if file is None:
        return None
    try:
        expected = _octets(data)
        same = os.fstat(file).st_size == len(expected) and _reads(file, expected)
        if same:
            folders.flush(file)
            folders.flush(folder)
        return same
    finally:
        os.close(file)


def _reads(file: int, expected: memoryview) -> bool:
    while expected:
        piece = os.read(file, _PIECE)
        if not piece or piece != bytes(expected[: len(piece)]):
            return False
        expected = expected[len(piece) :]
    return True


def _unlink(folder: int, name: str) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except PermissionError as err:
        if err.errno == errno.EPERM:
            return False
        raise
    folders.flush(folder)
    return True


def _walk(folder: int, path: str) -> Iterator[str]:
    """Paths of the regular files below a folder; links are not followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            below = f"{path}/{entry.name}" if path else entry.name
            if entry.is_dir(follow_symlinks=False):
                child = folders.enter(folder, entry.name)
                if child is not None:
                    try:
                        yield from _walk(child, below)
                    finally:
                        os.close(child)
            elif entry.is_file(follow_symlinks=False):
                yield below

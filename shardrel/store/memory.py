"""A store in memory that keeps every version. Source: schemas/SPEC.md#store

For tests, drills and simulations: it promises what every store promises and no more, so a token
is the digest of the bytes and comes back when the bytes come back.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass

from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, IntegrityError
from shardrel.store.layout import check_key, check_prefix
from shardrel.store.port import (
    AlreadyPresent,
    Conflict,
    CreateOutcome,
    Looked,
    Lost,
    ObjectKey,
    Stored,
    SwapOutcome,
    Token,
    Written,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    version: str
    data: bytes


class MemoryStore:
    """Threads of one process may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minted = 0
        self._versions: dict[ObjectKey, list[_Kept]] = {}

    @property
    def url(self) -> str:
        """Always ``memory:``."""
        return "memory:"

    def create(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        """Write only if the key is absent."""
        with self._lock:
            current = self._current(check_key(key))
            if current is None:
                return self._keep(key, bytes(data))
            return AlreadyPresent(current.version) if current.data == bytes(data) else Conflict()

    def read(self, key: ObjectKey, *, max_bytes: int, version: str | None = None) -> Stored | None:
        """Read the newest version, or exactly the one asked for."""
        found = self._find(key, version)
        if found is None:
            return None
        if len(found.data) > max_bytes:
            raise IntegrityError(
                ErrorCode.STORAGE_TOO_LARGE,
                "an object has more bytes than expected",
                size=len(found.data),
                limit=max_bytes,
            )
        return Stored(found.data, found.version, _token(found.data))

    def look(self, key: ObjectKey, *, first: int = 0, version: str | None = None) -> Looked | None:
        """Size, version and the first bytes."""
        found = self._find(key, version)
        return None if found is None else Looked(len(found.data), found.version, found.data[:first])

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        """Replace the bytes if the token matches."""
        with self._lock:
            current = self._current(check_key(key))
            if expected != (None if current is None else _token(current.data)):
                return Lost()
            return self._keep(key, bytes(data))

    def list(self, prefix: str) -> Iterator[ObjectKey]:
        """Keys below a prefix."""
        check_prefix(prefix)
        with self._lock:
            found = [key for key in self._versions if key.startswith(prefix)]
        return iter(found)

    def delete(self, key: ObjectKey, version: str) -> bool:
        """Remove exactly this version."""
        with self._lock:
            kept = [one for one in self._versions.get(check_key(key), []) if one.version != version]
            self._versions[key] = kept
            if not kept:
                del self._versions[key]
        return True

    def _find(self, key: ObjectKey, version: str | None) -> _Kept | None:
        with self._lock:
            kept = self._versions.get(check_key(key), [])
            return next((one for one in reversed(kept) if version in (None, one.version)), None)

    def _current(self, key: ObjectKey) -> _Kept | None:
        kept = self._versions.get(key)
        return kept[-1] if kept else None

    def _keep(self, key: ObjectKey, data: bytes) -> Written:
        self._minted += 1
        new = _Kept(version=f"version-{self._minted}", data=data)
        self._versions.setdefault(key, []).append(new)
        return Written(new.version, _token(data))


def _token(data: bytes) -> Token:
    return Token(digest_of(data))

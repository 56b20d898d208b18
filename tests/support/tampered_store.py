"""A store that hands out other bytes for one key, as a disk or an attacker would."""

from collections.abc import Iterator

from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, IntegrityError
from shardrel.store.port import CreateOutcome, ObjectKey, Store, Stored, SwapOutcome, Token


class TamperedStore:
    """Everything as ``inner`` has it, except the bytes of ``key``: those are ``data``, whatever version is asked."""

    def __init__(self, inner: Store, key: str, data: bytes) -> None:
        self._inner = inner
        self._key = key
        self.data = data

    @property
    def url(self) -> str:
        """Where the real one is."""
        return self._inner.url

    def create(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        """As the real one."""
        return self._inner.create(key, data)

    def read(self, key: ObjectKey, *, max_bytes: int, version: str | None = None) -> Stored | None:
        """The real bytes, or the tampered ones within the caller's bound."""
        if key != self._key:
            return self._inner.read(key, max_bytes=max_bytes, version=version)
        if len(self.data) > max_bytes:
            raise IntegrityError(ErrorCode.STORAGE_TOO_LARGE, "more bytes than the bound")
        return Stored(self.data, version or "tampered", Token(digest_of(self.data)))

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        """As the real one."""
        return self._inner.swap(key, data, expected)

    def list(self, prefix: str) -> Iterator[ObjectKey]:
        """As the real one."""
        return self._inner.list(prefix)

    def delete(self, key: ObjectKey, version: str) -> bool:
        """As the real one."""
        return self._inner.delete(key, version)

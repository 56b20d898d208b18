"""A store that passes everything on: what is put around a store starts here."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from shardrel.store.port import CreateOutcome, Looked, ObjectKey, Store, Stored, SwapOutcome, Token

T = TypeVar("T")


class ForwardingStore:
    """Passes everything on to ``inner``, each request through ``around``.

    A wrapper that does the same with every request replaces ``around``; one that changes a single operation replaces
    that one.
    """

    def __init__(self, inner: Store) -> None:
        """Forward to ``inner``."""
        self.inner = inner

    @property
    def url(self) -> str:
        """Where the real one is."""
        return self.inner.url

    def create(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        """As the real one."""
        return self.around("create", key, lambda: self.inner.create(key, data))

    def read(self, key: ObjectKey, *, max_bytes: int, version: str | None = None) -> Stored | None:
        """As the real one."""
        return self.around("read", key, lambda: self.inner.read(key, max_bytes=max_bytes, version=version))

    def look(self, key: ObjectKey, *, first: int = 0, version: str | None = None) -> Looked | None:
        """As the real one."""
        return self.around("look", key, lambda: self.inner.look(key, first=first, version=version))

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        """As the real one."""
        return self.around("swap", key, lambda: self.inner.swap(key, data, expected))

    def list(self, prefix: str) -> Iterator[ObjectKey]:
        """As the real one; it is read to its end before the first key comes."""
        return iter(self.around("list", prefix, lambda: [*self.inner.list(prefix)]))

    def delete(self, key: ObjectKey, version: str) -> bool:
        """As the real one."""
        return self.around("delete", key, lambda: self.inner.delete(key, version))

    def around(self, operation: str, key: str, request: Callable[[], T]) -> T:
        """What is done with a request; ``operation`` is the name of the port's method, ``key`` a key or a prefix."""
        return request()

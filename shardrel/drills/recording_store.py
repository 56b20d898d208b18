"""A store that writes down what is asked of it."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from shardrel.store.port import CreateOutcome, ObjectKey, Store, Stored, SwapOutcome, Token


@dataclass
class RecordingStore:
    """Passes everything on to ``inner``.

    Attributes:
        requests: (operation, key or prefix) of each request, in order; an operation is the name of the port's method.
    """

    inner: Store
    requests: list[tuple[str, str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """Where the real one is."""
        return self.inner.url

    def create(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        self._record("create", key)
        return self.inner.create(key, data)

    def read(self, key: ObjectKey, *, max_bytes: int, version: str | None = None) -> Stored | None:
        self._record("read", key)
        return self.inner.read(key, max_bytes=max_bytes, version=version)

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        self._record("swap", key)
        return self.inner.swap(key, data, expected)

    def list(self, prefix: str) -> Iterator[ObjectKey]:
        self._record("list", prefix)
        return self.inner.list(prefix)

    def delete(self, key: ObjectKey, version: str) -> bool:
        self._record("delete", key)
        return self.inner.delete(key, version)

    def _record(self, operation: str, key: str) -> None:
        with self._lock:
            self.requests.append((operation, key))

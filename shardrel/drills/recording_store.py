"""A store that writes down what is asked of it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from shardrel.store.forwarding import ForwardingStore
from shardrel.store.port import Store

T = TypeVar("T")


@dataclass
class RecordingStore(ForwardingStore):
    """Passes everything on to ``inner``.

    Attributes:
        requests: (operation, key or prefix) of each request, in order; an operation is the name of the port's method.
    """

    inner: Store
    requests: list[tuple[str, str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def around(self, operation: str, key: str, request: Callable[[], T]) -> T:
        """Write it down, then pass it on."""
        with self._lock:
            self.requests.append((operation, key))
        return request()

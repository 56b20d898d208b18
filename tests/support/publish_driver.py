"""Publishes in a process of its own that kills itself after so many store operations.

Usage: publish_driver.py STORE KEY SNAPSHOT SOURCE BEFORE|AFTER K [KEK]
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from publisher.options import PublishOptions
from publisher.publish import World, publish
from shardrel.gate.fences import FenceSelectors
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.local import LocalStore
from shardrel.store.port import Store
from shardrel.trust.key_files import load_key_file
from shardrel.trust.keys import from_pem

T = TypeVar("T")


class DyingStore(ForwardingStore):
    """Passes everything on; the k-th write is the last thing that the process does, or does not."""

    def __init__(self, inner: Store, k: int, *, after: bool) -> None:
        super().__init__(inner)
        self._left, self._after = k, after
        self._lock = threading.Lock()

    def around(self, operation: str, key: str, request: Callable[[], T]) -> T:
        dies = operation in ("create", "swap") and self._counted()
        outcome = request()
        if dies:
            self._die()
        return outcome

    def _counted(self) -> bool:
        with self._lock:
            self._left -= 1
            if self._left == 0 and not self._after:
                self._die()
            return self._left == 0

    def _die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Publish with two shards a worker, so that there is something to lose."""
    store, key, snapshot, source, when, k, *encrypt = sys.argv[1:]
    dying = DyingStore(LocalStore(store), int(k), after=when == "after")
    signer = from_pem("publisher", Path(key).read_bytes())
    world = World(signer=signer, now=lambda: "2026-01-31T12:00:00Z", progress=lambda done, total: None)
    kek = load_key_file(Path(encrypt[0])) if encrypt else None
    options = PublishOptions(shards=4, workers=2, encrypt=kek, encrypt_index=kek is not None)
    result = publish(dying, snapshot, [source], options, fences=FenceSelectors(), world=world)
    print(result.root)


if __name__ == "__main__":
    main()

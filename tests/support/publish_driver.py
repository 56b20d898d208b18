"""Publishes in a process of its own that kills itself after so many store operations.

Usage: publish_driver.py STORE KEY SNAPSHOT SOURCE BEFORE|AFTER K [KEK]
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from publisher.options import PublishOptions
from publisher.publish import World, publish
from shardrel.gate.fences import FenceSelectors
from shardrel.store.local import LocalStore
from shardrel.store.port import CreateOutcome, ObjectKey, Store, Stored, SwapOutcome, Token
from shardrel.trust.key_files import load_key_file
from shardrel.trust.keys import from_pem


class DyingStore:
    """Passes everything on; the k-th operation is the last thing that the process does, or does not."""

    def __init__(self, inner: Store, k: int, *, after: bool) -> None:
        self._inner, self._left, self._after = inner, k, after
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self._inner.url

    def create(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        dies = self._counted()
        outcome = self._inner.create(key, data)
        return outcome if not dies else self._die()

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        dies = self._counted()
        outcome = self._inner.swap(key, data, expected)
        return outcome if not dies else self._die()

    def read(self, key: ObjectKey, *, max_bytes: int, version: str | None = None) -> Stored | None:
        return self._inner.read(key, max_bytes=max_bytes, version=version)

    def list(self, prefix: str) -> Iterator[ObjectKey]:
        return self._inner.list(prefix)

    def delete(self, key: ObjectKey, version: str) -> bool:
        return self._inner.delete(key, version)

    def _counted(self) -> bool:
        with self._lock:
            self._left -= 1
            if self._left == 0 and not self._after:
                self._die()
            return self._left == 0

    def _die(self) -> SwapOutcome:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a killed process does nothing")


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

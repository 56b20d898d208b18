"""A dataset whose alias went through several releases, for tests of retention."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from publisher.options import PublishOptions
from shardrel.gate.admit import admit
from shardrel.gate.approve import approve
from shardrel.gate.call import Call
from shardrel.gate.closure import root_closure
from shardrel.gate.gc import Collected, collect
from shardrel.gate.view import GateView, read_gate
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.layout import object_digest
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Store
from tests.support.publishing import NOW, Publishing, records_table, write_source
from tests.support.release_builder import a_world
from verifier.verify import verify_release

T = TypeVar("T")


@dataclass
class Retained:
    """One dataset and its releases, oldest first; each of them went to the alias ``prod``."""

    made: Publishing = field(default_factory=lambda: Publishing(store=MemoryStore()))
    roots: list[str] = field(default_factory=list)

    @property
    def store(self) -> Store:
        """Where everything is."""
        return self.made.store

    @property
    def view(self) -> GateView:
        """The gate as it is now."""
        return read_gate(self.store, self.made.dataset)

    def call(self, operation_id: str | None = None) -> Call:
        """The admin's."""
        return Call(signers=[self.made.keys["admin"]], recorded_at=NOW, operation_id=operation_id, pending=None)

    def publish(self, number: int) -> str:
        """Publish a release of its own records and of some that all share."""
        with tempfile.TemporaryDirectory() as folder:
            source = write_source(Path(folder) / "a.arrow", records_table(20 + number))
            snapshot = self.made.snapshot(source)
            return self.made.publish(snapshot, source, options=PublishOptions(shards=2)).root

    def declare(self, number: int) -> str:
        """Declare a snapshot and publish nothing."""
        with tempfile.TemporaryDirectory() as folder:
            source = write_source(Path(folder) / "a.arrow", records_table(20 + number))
            return self.made.snapshot(source)

    def verify(self, root: str) -> str:
        """The verdict."""
        return verify_release(self.store, root, self.view, world=a_world(self.made)).report.verdict

    def release(self, number: int, alias: str = "prod") -> str:
        """Publish, verify, approve, admit."""
        root = self.publish(number)
        assert self.verify(root) == "PASSED"
        approve(self.store, self.view, root, self.made.keys["approver"], NOW)
        admit(self.store, self.made.dataset, root, alias, self.call())
        self.roots.append(root)
        return root

    def gc(self, operation_id: str | None = None, **how: Any) -> Collected:
        """Collect; of each alias only the current generation stays, unless it is said otherwise."""
        how = {"generations": 0, **how}
        return collect(self.store, self.made.dataset, self.call(operation_id), **how)

    def objects(self) -> set[str]:
        """Digests of all objects."""
        return {digest for key in self.store.list("objects/sha256/") if (digest := object_digest(key))}

    def whole(self, root: str) -> bool:
        """Whether everything that a root names is there."""
        return set(root_closure(self.store, root)) <= self.objects()


def retained(store: Store | None = None, releases: int = 3) -> Retained:
    """A gate whose alias went through these releases."""
    scene = Retained(Publishing(store=store or MemoryStore()))
    scene.made.init()
    for number in range(releases):
        scene.release(number)
    return scene


class Killed(BaseException):
    """The process is no more."""


@dataclass
class MortalStore(ForwardingStore):
    """Passes everything on; before or after its k-th operation the process dies, and every later one fails too."""

    inner: Store
    k: int
    after: bool
    count: int = 0

    def around(self, operation: str, key: str, request: Callable[[], T]) -> T:
        self.count += 1
        if self.count > self.k or (self.count == self.k and not self.after):
            raise Killed
        outcome = request()
        if self.count == self.k:
            raise Killed
        return outcome

"""A store on a server, with the versions of a folder. Source: schemas/SPEC.md#crash-lab.

A server gives every write a version of its own, which descriptors name. The stores of a drill are copies of each other
and end in folders, so their records name versions that are the same wherever the bytes lie: every read is checked
against its digest all the same.
"""

from collections.abc import Callable

from shardrel.digest import digest_of
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.layout import object_digest
from shardrel.store.port import AlreadyPresent, CreateOutcome, Looked, ObjectKey, Stored, SwapOutcome, Token, Written


class PlainVersions(ForwardingStore):
    """Passes everything on, and says which bytes there are as a folder would."""

    def create(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        """As the real one."""
        outcome = super().create(key, data)
        match outcome:
            case Written(token=token):
                return Written(_version(key, lambda: bytes(data)), token)
            case AlreadyPresent():
                return AlreadyPresent(_version(key, lambda: bytes(data)))
        return outcome

    def read(self, key: ObjectKey, *, max_bytes: int, version: str | None = None) -> Stored | None:
        """The current bytes, if they are of this version."""
        found = super().read(key, max_bytes=max_bytes)
        if found is None:
            return None
        held = _version(key, lambda: found.data)
        return Stored(found.data, held, found.token) if version in (None, held) else None

    def look(self, key: ObjectKey, *, first: int = 0, version: str | None = None) -> Looked | None:
        """At the current bytes, if they are of this version. One whose name is no digest is read whole."""
        found = super().look(key, first=first)
        if found is None:
            return None
        held = object_digest(key)
        if held is None:
            stored = self.read(key, max_bytes=found.size)
            if stored is None:
                return None
            held = stored.version
        return Looked(found.size, held, found.start) if version in (None, held) else None

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        """As the real one."""
        outcome = super().swap(key, data, expected)
        return Written(_version(key, lambda: data), outcome.token) if isinstance(outcome, Written) else outcome


def _version(key: ObjectKey, data: Callable[[], bytes]) -> str:
    return object_digest(key) or digest_of(data())

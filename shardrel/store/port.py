"""The store port: few operations whose results are values. Source: schemas/SPEC.md#store

Adapters (``local``, ``s3``, ``memory``) implement it; nothing else touches bytes at rest.
An outcome is never a bool: a conditional write may also be unknown, and unknown is never
turned into lost.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NewType, Protocol, runtime_checkable

ObjectKey = NewType("ObjectKey", str)
Token = NewType("Token", str)


@dataclass(frozen=True, slots=True)
class Written:
    """The write is durable. ``version`` names exactly these bytes, ``token`` serves a later swap."""

    version: str
    token: Token


@dataclass(frozen=True, slots=True)
class AlreadyPresent:
    """The key held the same bytes before; as good as written."""

    version: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """The key holds other bytes. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Somebody else's swap came first. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The write may or may not have landed, now or later. Clean nothing up."""

    reason: str


CreateOutcome = Written | AlreadyPresent | Conflict | Unknown
SwapOutcome = Written | Lost | Unknown


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes as read, with the version that names them and the token that a swap expects."""

    data: bytes
    version: str
    token: Token


@dataclass(frozen=True, slots=True)
class Looked:
    """An object without most of its bytes: how many there are, the version that names them, and the first of them."""

    size: int
    version: str
    start: bytes


class Store(Protocol):
    """What the product needs of a place for bytes. Keys follow ``shardrel.store.layout``.

    Every operation raises ``UnavailableError`` (``store.unavailable``, ``store.access-denied``) when the
    store does not answer a read, and ``IntegrityError`` (``storage.bad-key``, ``storage.unsafe-path``) before
    anything is touched when a key or a path is not sound.
    """

    @property
    def url(self) -> str:
        """Where the store is, without credentials."""
        ...

    def create(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        """Write only if the key is absent; durable when it returns Written or AlreadyPresent."""
        ...

    def read(self, key: ObjectKey, *, max_bytes: int, version: str | None = None) -> Stored | None:
        """Read the current bytes, or exactly ``version``; None when that is absent.

        Raises:
            IntegrityError: ``storage.too-large`` when there are more than ``max_bytes``; no more are read.
        """
        ...

    def look(self, key: ObjectKey, *, first: int = 0, version: str | None = None) -> Looked | None:
        """Size, version and at most the ``first`` bytes, current or of exactly ``version``; None when that is absent.

        One request, whatever the object's size. The bytes are not checked, and vouch for nothing.
        """
        ...

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        """Replace the bytes only if the token matches; ``expected`` None means the key must be absent."""
        ...

    def list(self, prefix: str) -> Iterator[ObjectKey]:
        """Keys below a prefix, in no promised order. A hint: never a source of truth."""
        ...

    def delete(self, key: ObjectKey, version: str) -> bool:
        """Remove exactly this version; False when a lock forbids it. Retention alone calls this."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """What another process opens the same store by. Credentials are found there as they were found here."""

    url: str
    endpoint_url: str | None
    quoted_tokens: bool


@runtime_checkable
class Addressed(Protocol):
    """A store that another process can open too."""

    @property
    def address(self) -> Address:
        """How."""
        ...


@runtime_checkable
class Foldered(Protocol):
    """A store whose keys lie in folders, which stay when the last object in them goes."""

    def drop_folder(self, prefix: str) -> None:
        """Remove the folder of keys with this prefix if it is empty; nobody may write there meanwhile."""
        ...


@runtime_checkable
class ProbedServer(Protocol):
    """What a probe asks of an S3 server beyond the port. No verb of the product does."""

    def speaking(self, *, quoted_tokens: bool) -> Store:
        """The same store with tokens in, or without, their quotes."""
        ...

    def hide(self, key: ObjectKey) -> str | None:
        """Delete whatever is current; the version of the delete marker that stands there now, if one does."""
        ...

    def create_in_parts(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        """Create as a multipart upload, whatever the size."""
        ...

    def open_uploads(self) -> int:
        """How many multipart uploads below the store's prefix are neither completed nor aborted."""
        ...

"""A store that hands out other bytes for one key, as a disk or an attacker would."""

from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, IntegrityError
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.port import ObjectKey, Store, Stored, Token


class TamperedStore(ForwardingStore):
    """Everything as ``inner`` has it, except the bytes of ``key``: those are ``data``, whatever version is asked."""

    def __init__(self, inner: Store, key: str, data: bytes) -> None:
        super().__init__(inner)
        self._key = key
        self.data = data

    def read(self, key: ObjectKey, *, max_bytes: int, version: str | None = None) -> Stored | None:
        """The real bytes, or the tampered ones within the caller's bound."""
        if key != self._key:
            return self.inner.read(key, max_bytes=max_bytes, version=version)
        if len(self.data) > max_bytes:
            raise IntegrityError(ErrorCode.STORAGE_TOO_LARGE, "more bytes than the bound")
        return Stored(self.data, version or "tampered", Token(digest_of(self.data)))

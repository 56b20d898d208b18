"""Key-encryption keys: the port, what a wrapped key is bound to, and the order in which failures are told apart.

Key material lives in ``KeyEncryption`` adapters and in ``DataKey`` alone; neither shows it in its repr, and
no error names it. Source: schemas/SPEC.md#encryption
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from shardrel.canonical import json
from shardrel.digest import Domain, domain_hash, lp, to_digest
from shardrel.errors import ErrorCode, IntegrityError, RefusedError
from shardrel.records.encryption import Encryption, ShardKey
from shardrel.trust import aead

INDEX = "member-index"
SNAPSHOT = "snapshot"
_CHECK = Domain.ID.value + lp(b"key-check")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which object a data key is for; all of it is authenticated with every byte.

    Attributes:
        snapshot: Digest of the snapshot; empty for the parts of a snapshot itself, which it is made of.
        name: Shard id, or ``member-index`` or ``snapshot``.
        schema: Digest of the record schema.
    """

    dataset: str
    snapshot: str
    name: str
    schema: str
    key_version: str

    @property
    def binding(self) -> dict[str, str]:
        """What the wrapped key is bound to."""
        return {"dataset": self.dataset, "keyVersion": self.key_version, "shard": self.name}

    def aad_prefix(self, last: str | None = None) -> bytes:
        """Canonical bytes that every module of the Parquet file is bound to; never stored in it.

        Args:
            last: Last sample id of a part, where one data key is for many parts.
        """
        more = {} if last is None else {"lastSampleId": last}
        return json.encode({**self.binding, "schema": self.schema, "snapshot": self.snapshot, **more})


class KeyEncryption(Protocol):
    """A key that wraps data keys: a local file, or one that never leaves a KMS."""

    @property
    def fingerprint(self) -> str:
        """Digest that names the key and says nothing of it."""
        ...

    @property
    def version(self) -> str | None:
        """Its version; None where the reference names none, which goes with any."""
        ...

    def wrap(self, data_key: bytes, binding: Mapping[str, str]) -> bytes:
        """The data key, encrypted and bound."""
        ...

    def unwrap(self, wrapped: bytes, binding: Mapping[str, str]) -> bytes:
        """The data key.

        Raises:
            IntegrityError: ``encryption.wrapped-key`` when it was wrapped for something else, or changed.
        """
        ...


class Declares(Protocol):
    """What a root manifest, a snapshot or a stored key says of its encryption."""

    @property
    def key_version(self) -> str:
        """Version of the key-encryption key."""
        ...

    @property
    def key_fingerprint(self) -> str:
        """Its fingerprint."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DataKey:
    """The key of one object, in memory.

    Attributes:
        record: What is stored of it: wrapped key and key-check value.
    """

    key: bytes = field(repr=False)
    record: ShardKey


DEFAULT_VERSION = "1"


def version_of(key: KeyEncryption) -> str:
    """The version that new objects are encrypted under."""
    return key.version or DEFAULT_VERSION


def fingerprint_of(kind: str, identity: bytes) -> str:
    """Fingerprint of a key: one-way, and of its kind."""
    return to_digest(domain_hash(Domain.ID, lp(b"key-encryption-key"), lp(kind.encode()), identity))


def declaration(key: KeyEncryption, parts_key: ShardKey | None) -> Encryption:
    """What a root manifest or a snapshot says of its encryption."""
    return Encryption(
        scheme="parquet-modular-encryption.v1",
        key_version=version_of(key),
        key_fingerprint=key.fingerprint,
        parts_key=parts_key,
    )


def new_data_key(key: KeyEncryption, place: Place) -> DataKey:
    """A fresh data key for one object, wrapped.

    Effects: asks the KMS, where the key is one of a KMS.
    """
    data_key = aead.fresh_key()
    wrapped = key.wrap(data_key, place.binding)
    return DataKey(key=data_key, record=ShardKey(wrapped=wrapped.hex(), check=aead.check_value(data_key, _CHECK)))


def check_reader(declared: Declares, keys: Sequence[KeyEncryption]) -> KeyEncryption:
    """The declared key among those that there are.

    Raises:
        RefusedError: ``encryption.reader`` without a key; ``encryption.key`` with others alone;
            ``encryption.key-version`` with other versions of it.
    """
    if not keys:
        raise RefusedError(
            ErrorCode.ENCRYPTION_READER, "it is encrypted, and no key was given: --decrypt or SHARDREL_ENCRYPTION_KEY"
        )
    found = [key for key in keys if key.fingerprint == declared.key_fingerprint]
    if not found:
        raise RefusedError(
            ErrorCode.ENCRYPTION_KEY,
            "it is encrypted with another key; name that one with --decrypt",
            fingerprint=keys[0].fingerprint,
            expected=declared.key_fingerprint,
        )
    for key in found:
        if key.version in (None, declared.key_version):
            return key
    raise RefusedError(
        ErrorCode.ENCRYPTION_KEY_VERSION,
        "it is encrypted with another version of the key; name that one as KEYREF#VERSION",
        version=found[0].version,
        expected=declared.key_version,
    )


def unlock(declared: Declares, keys: Sequence[KeyEncryption], record: ShardKey | None, place: Place) -> DataKey:
    """The data key of one object, each failure by its own code, in this order: reader, key, version, wrapped key, check.

    Raises:
        RefusedError: As ``check_reader``.
        IntegrityError: ``encryption.wrapped-key``, ``encryption.key-check``.
        UnavailableError: The KMS does not answer.
    """
    key = check_reader(declared, keys)
    if record is None:
        raise _wrapped("there is no wrapped key for it", place)
    try:
        wrapped = bytes.fromhex(record.wrapped)
    except ValueError:
        raise _wrapped("the wrapped key is not hexadecimal", place) from None
    data_key = key.unwrap(wrapped, place.binding)
    # AES-GCM commits to no key: without this, a second key could be made that a wrapped key opens under.
    if len(data_key) != aead.KEY_BYTES or not aead.same(aead.check_value(data_key, _CHECK), record.check):
        raise IntegrityError(
            ErrorCode.ENCRYPTION_KEY_CHECK,
            "the unwrapped key is not the one that the check value is of",
            shard=place.name,
        )
    return DataKey(key=data_key, record=record)


def _wrapped(message: str, place: Place) -> IntegrityError:
    return IntegrityError(ErrorCode.ENCRYPTION_WRAPPED_KEY, message, shard=place.name)


class Unlocked:
    """Data keys, each unwrapped once; safe among threads. Holds them in memory alone, and shows none.

    Args:
        keys: What may unwrap; without one every ask is refused.
    """

    def __init__(self, keys: Sequence[KeyEncryption] = ()) -> None:
        self._keys = tuple(keys)
        # No lock: a process that is forked while one is held would wait for it for ever. Two threads may ask twice.
        self._known: dict[tuple[Place, str], DataKey] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process unwraps for itself."""
        return Unlocked, (self._keys,)

    def check(self, declared: Declares | None) -> None:
        """Refuse, as ``check_reader``, what is encrypted with no key that there is."""
        if declared is not None:
            check_reader(declared, self._keys)

    def data_key(self, declared: Declares, record: ShardKey | None, place: Place) -> DataKey:
        """As ``unlock``."""
        at = (place, f"{declared.key_fingerprint} {record}")
        known = self._known.get(at)
        if known is None:
            known = self._known[at] = unlock(declared, self._keys, record, place)
        return known

"""What a publication is asked to do, and what came of it. Source: schemas/SPEC.md#publish."""

from dataclasses import dataclass
from typing import Any

import msgspec

from publisher.partition import FUNCTION, SHARD_BYTES, shard_count
from shardrel.canonical import json
from shardrel.digest import Domain, domain_hash, raw_digest
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.evolution import Rename, SchemaEvolution
from shardrel.records.release import Compression, Sharding
from shardrel.trust.key_encryption import KeyEncryption, version_of

MEMORY_BYTES = 1 << 30
ZSTD_3 = Compression(codec="zstd", level=3)
# The manifest has 64 MiB, and a shard more than 500 bytes in it.
_MAX_SHARDS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """Parameters of a publication.

    Attributes:
        shards: Number of shards; None lets ``shard_bytes`` decide.
        shard_bytes: Logical bytes of a shard, about.
        seed: Of the sharding.
        compression: Of the pages.
        workers: Threads; they change nothing of the result.
        previous: Root whose record schema is compared with; None compares nothing.
        renames: Fields that were given another name since.
        packed: Columns of numbers that are stored as bytes; in any order.
        encrypt: Key-encryption key of the shards; None leaves them plain.
        encrypt_index: Whether the parts of the member index are encrypted too.
        memory_bytes: Decoded records that are kept in memory; more go to temporary files. Beside them memory holds
            about 110 bytes and the sample id of every record, batches of the source of about 200 MiB that are read
            ahead (what stays where it lies in a mapped Arrow file not counted), and what each worker has under way: two prepared batches of up to 32 MiB, then a shard's encoded bytes and
            a row group (a whole shard where the source is not in canonical order).
    """

    shards: int | None = None
    shard_bytes: int = SHARD_BYTES
    seed: int = 0
    compression: Compression = ZSTD_3
    workers: int = 2
    previous: str | None = None
    renames: tuple[Rename, ...] = ()
    packed: tuple[str, ...] = ()
    encrypt: KeyEncryption | None = None
    encrypt_index: bool = False
    memory_bytes: int = MEMORY_BYTES

    def __post_init__(self) -> None:
        if self.shards is not None and not 1 <= self.shards <= _MAX_SHARDS:
            raise InvalidInputError(ErrorCode.INPUT_INVALID, f"a release has 1 to {_MAX_SHARDS} shards")
        if self.shard_bytes < 1 or self.workers < 1 or not 0 <= self.seed <= json.MAX_INTEGER:
            raise InvalidInputError(ErrorCode.INPUT_INVALID, "shard size, workers or seed is out of range")
        if self.renames and self.previous is None:
            raise InvalidInputError(ErrorCode.INPUT_RENAME, "renames are between a previous release and this one")
        if self.encrypt_index and self.encrypt is None:
            raise InvalidInputError(ErrorCode.INPUT_INVALID, "a member index is encrypted where its shards are")

    @property
    def parameters(self) -> dict[str, Any]:
        """What decides the root besides the snapshot, as plain JSON values."""
        return {
            "shards": self.shards,
            "shardBytes": self.shard_bytes if self.shards is None else None,
            "seed": self.seed,
            "compression": msgspec.to_builtins(self.compression),
            **self._packing,
            **self._comparison,
            **self._encryption,
        }

    @property
    def _packing(self) -> dict[str, Any]:
        """Left out where nothing is packed."""
        return {"packed": sorted(set(self.packed))} if self.packed else {}

    @property
    def _encryption(self) -> dict[str, Any]:
        """Left out where nothing is encrypted."""
        if self.encrypt is None:
            return {}
        chosen = {"keyFingerprint": self.encrypt.fingerprint, "keyVersion": version_of(self.encrypt)}
        return {"encryption": {**chosen, "memberIndex": self.encrypt_index}}

    @property
    def _comparison(self) -> dict[str, Any]:
        """Left out where nothing is compared."""
        if self.previous is None:
            return {}
        renames = sorted(self.renames, key=lambda one: one.path)
        return {"previous": self.previous, "renames": [msgspec.to_builtins(rename) for rename in renames]}

    def sharding(self, logical_bytes: int) -> Sharding:
        """How records are spread, for a release of so many logical bytes."""
        shards = self.shards or min(_MAX_SHARDS, shard_count(logical_bytes, self.shard_bytes))
        return Sharding(function=FUNCTION, shards=shards, seed=self.seed, sort_key="member-tuple.v1")

    def publication(self, snapshot: str) -> str:
        """Name of the publication: the same for the same snapshot and parameters."""
        return "publish-" + domain_hash(Domain.ID, raw_digest(snapshot), json.encode(self.parameters)).hex()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishResult:
    """A release that the gate knows as a candidate.

    Attributes:
        state: STAGED, or what a root that was published before has become since.
        already_present: Shards that an earlier run had written.
        excluded: Records that were left out because the logs name them.
        evolution: How its record schema differs from that of the previous root, where one was named.
    """

    root: str
    content_digest: str
    state: str
    shards: int
    records: int
    excluded: int
    stored_bytes: int
    already_present: int
    evolution: SchemaEvolution | None = None

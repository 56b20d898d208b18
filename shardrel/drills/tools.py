"""What drills use of the publisher and of the verifier, handed in by the command line.

The three programs never import each other, so drills see the other two through these few functions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from shardrel.gate.view import GateView
from shardrel.records.descriptor import Descriptor
from shardrel.records.report import Report
from shardrel.store.port import Store
from shardrel.trust.key_encryption import KeyEncryption, Unlocked
from shardrel.trust.signer import Signer


class Declare(Protocol):
    """Declare a snapshot of source files that have the columns ``id``, ``source``, ``version`` and ``split``."""

    def __call__(self, store: Store, dataset: str, sources: Sequence[str]) -> str:
        """Digest of the snapshot."""
        ...


class Publish(Protocol):
    """Publish a snapshot, through the gate."""

    def __call__(
        self,
        store: Store,
        snapshot: str,
        sources: Sequence[str],
        shards: int,
        signer: Signer,
        encrypt: KeyEncryption | None,
    ) -> str:
        """Digest of the root, whose shards are encrypted where there is a key."""
        ...


class Vouch(Protocol):
    """Say as a publisher that a root was made from a snapshot."""

    def __call__(self, root: str, dataset: str, snapshot: str, signer: Signer) -> bytes:
        """The signed provenance."""
        ...


class PutIndex(Protocol):
    """Store a member index of members in canonical order."""

    def __call__(
        self, store: Store, sample_ids: Any, leaves: Any, places: tuple[Any, Any], ordered_root: str
    ) -> Descriptor:
        """Its descriptor.

        Args:
            store: Where to.
            sample_ids: String array.
            leaves: Shape (n, 32), uint8.
            places: Shard numbers and rows, uint32.
            ordered_root: Digest of the tree over the leaves.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The other two programs.

    Attributes:
        declare: The publisher's snapshot.
        publish: The publisher's release.
        vouch: The publisher's provenance.
        put_index: The publisher's member index.
        verify: The verifier's full verification: signed, attached, and given back; with the keys to read with.
    """

    declare: Declare
    publish: Publish
    vouch: Vouch
    put_index: PutIndex
    verify: Callable[[Store, str, GateView, Signer, Unlocked], Report]

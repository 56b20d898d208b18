"""The publisher and the verifier as drills use them; the one place that sees all three programs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shardrel import clock

if TYPE_CHECKING:
    from shardrel.drills.tools import Tools
    from shardrel.gate.view import GateView
    from shardrel.records.descriptor import Descriptor
    from shardrel.records.report import Report
    from shardrel.store.port import Store
    from shardrel.trust.key_encryption import KeyEncryption, Unlocked
    from shardrel.trust.signer import Signer


def the_tools() -> "Tools":
    """The real programs."""
    from shardrel.drills.tools import Tools

    return Tools(declare=_declare, publish=_publish, vouch=_vouch, put_index=_put_index, verify=_verify)


def _declare(store: "Store", dataset: str, sources: Sequence[str]) -> str:
    from publisher.snapshot import SnapshotOptions, make_snapshot
    from shardrel.gate.fences import FenceSelectors
    from shardrel.records.snapshot import Columns

    columns = Columns(id="id", source="source", version="version", split="split")
    options = SnapshotOptions(dataset=dataset, columns=columns, token_column="tokens")  # noqa: S106 (tokens of text)
    nothing = FenceSelectors()
    return make_snapshot(
        store, sources, options, tombstones=nothing, benchmarks=nothing, progress=_silent
    ).snapshot  # fmt: skip


def _publish(
    store: "Store",
    snapshot: str,
    sources: Sequence[str],
    shards: int,
    signer: "Signer",
    encrypt: "KeyEncryption | None",
) -> str:
    from publisher.options import PublishOptions
    from publisher.publish import World, publish
    from shardrel.gate.fences import FenceSelectors

    world = World(signer=signer, now=clock.now_utc, progress=_silent)
    options = PublishOptions(shards=shards, encrypt=encrypt, encrypt_index=encrypt is not None)
    return publish(store, snapshot, sources, options, fences=FenceSelectors(), world=world).root


def _vouch(root: str, dataset: str, snapshot: str, signer: "Signer") -> bytes:
    from publisher.provenance import Build, provenance

    now = clock.now_utc()
    build = Build(
        snapshot=snapshot, parameters={}, sources=[], publication="publish-drill", started_on=now, finished_on=now
    )
    return provenance(root, dataset, build, signer)


def _put_index(
    store: "Store", sample_ids: Any, leaves: Any, places: tuple[Any, Any], ordered_root: str
) -> "Descriptor":
    from publisher.member_index import index_table, member_index, put_parts
    from shardrel.digest import parse_digest
    from shardrel.membership.merkle import MerkleStream
    from shardrel.store.objects import put_record, unversioned

    parts = put_parts(store, index_table(sample_ids, leaves, *places))
    tree = MerkleStream()
    tree.append(leaves)
    return unversioned(put_record(store, member_index(parts, parse_digest(ordered_root), tree.block_roots())))


def _verify(store: "Store", root: str, view: "GateView", signer: "Signer", unlocked: "Unlocked") -> "Report":
    from verifier.verify import World, verify_release

    world = World(signer=signer, now=clock.now_utc, progress=_silent, unlocked=unlocked)
    return verify_release(store, root, view, world=world).report


def _silent(done: int, total: int | None = None) -> None:
    """Drills say how far they are, not what they use."""

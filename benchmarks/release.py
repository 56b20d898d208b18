"""One release from a local IPC file, through the product's own functions, in a fresh local store."""

from dataclasses import dataclass
from pathlib import Path

from publisher.options import PublishOptions, PublishResult
from publisher.publish import World as PublishWorld
from publisher.publish import publish
from publisher.snapshot import SnapshotOptions, make_snapshot
from shardrel.clock import now_utc
from shardrel.gate.call import Call
from shardrel.gate.fences import FenceSelectors
from shardrel.gate.init import init
from shardrel.gate.view import read_gate
from shardrel.records.snapshot import Columns
from shardrel.store.local import LocalStore
from shardrel.store.port import Store
from shardrel.trust import keyring
from shardrel.trust.key_encryption import KeyEncryption, Unlocked
from shardrel.trust.keys import SigningKey
from shardrel.trust.policy import default_policy
from verifier.verify import VerifyResult, verify_release
from verifier.verify import World as VerifyWorld

DATASET = "bench"
THREADS = 2


@dataclass(frozen=True, slots=True)
class Place:
    """A store with a gate, and the keys to use it."""

    store: Store
    keys: dict[str, SigningKey]


def place(folder: Path, keys: Path) -> Place:
    """A fresh store with a gate."""
    public = keyring.ensure(keys)
    private = {name: keyring.load(keys, name) for name in public}
    store = LocalStore(folder)
    call = Call(signers=[private["admin"]], recorded_at=now_utc(), operation_id=None, pending=None)
    init(store, DATASET, default_policy(public), call)
    return Place(store, private)


def declare(at: Place, source: Path, token_column: str | None) -> str:
    """The snapshot of a source."""
    options = SnapshotOptions(
        dataset=DATASET,
        columns=Columns(id="id", source=None, version=None, split=None),
        token_column=token_column,
        workers=THREADS,
    )
    none = FenceSelectors()
    result = make_snapshot(at.store, [str(source)], options, tombstones=none, benchmarks=none, progress=_quiet)
    return result.snapshot


def publish_once(
    at: Place,
    snapshot: str,
    source: Path,
    shards: int,
    encrypt: KeyEncryption | None = None,
    packed: tuple[str, ...] = (),
) -> PublishResult:
    """Stage the release; encrypted, its index too, where there is a key; some columns packed."""
    world = PublishWorld(signer=at.keys["publisher"], now=now_utc, progress=_quiet)
    options = PublishOptions(
        shards=shards, workers=THREADS, encrypt=encrypt, encrypt_index=encrypt is not None, packed=packed
    )
    return publish(at.store, snapshot, [str(source)], options, fences=FenceSelectors(), world=world)


def verify_once(at: Place, root: str, *keys: KeyEncryption) -> VerifyResult:
    """The whole verification, from reading the gate to the signed report."""
    world = VerifyWorld(
        signer=at.keys["verifier"], now=now_utc, progress=_quiet, workers=THREADS, unlocked=Unlocked(keys)
    )
    result = verify_release(at.store, root, read_gate(at.store, DATASET), world=world)
    if result.report.verdict != "PASSED":
        raise SystemExit(f"the release does not verify: {result.report.findings[:3]}")
    return result


def shard_files(folder: Path, result_root: str, at: Place) -> list[Path]:
    """Paths of the shards of a release in its local store."""
    from shardrel.canonical.json import decode
    from shardrel.records.release import Release
    from shardrel.store.layout import object_key
    from shardrel.store.objects import get_by_digest

    release = decode(get_by_digest(at.store, result_root), Release)
    return [folder / object_key(shard.digest) for shard in release.shards]


def _quiet(done: int, total: int | None) -> None:
    """No progress in benchmarks."""

"""Is a bundle what it says? By its structure, and by computing again what can be. Source: schemas/SPEC.md#crash-lab."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardrel.canonical import json
from shardrel.data import ledger
from shardrel.data.order import SampleOrder
from shardrel.data.plan import split_records
from shardrel.data.shards import count_split, shard_descriptor
from shardrel.digest import Digest, digest_of
from shardrel.errors import ErrorCode, ShardrelError
from shardrel.lab import bundle as bundles
from shardrel.lab import inventory
from shardrel.lab.bundle import Bundle
from shardrel.lab.drill import STORES
from shardrel.lab.envelopes import unsealed
from shardrel.lab.evaluation import Split, evaluate, read_split
from shardrel.lab.evidence import EVIDENCE_PAYLOAD, Evaluation
from shardrel.lab.fashion import Pins, Resource, rebuilt
from shardrel.lab.installed import machine
from shardrel.lab.judge import Problem, judge
from shardrel.lab.retained import Retained, retained
from shardrel.lab.scene import DATASET, RUN
from shardrel.records.policy import PublicKey
from shardrel.records.release import Release
from shardrel.records.run import RunRecord
from shardrel.store.layout import run_key
from shardrel.store.local import LocalStore
from shardrel.store.objects import get, get_by_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What came of it.

    Attributes:
        unproven: What could not be computed again here: bits of another machine.
    """

    bundle: Bundle | None
    failures: tuple[Problem, ...]
    unproven: tuple[str, ...]


NO_STORES = Problem(check="structure", subject=f"{bundles.STORES}: {ErrorCode.STORAGE_ABSENT}")
_IN_STORES = ("retained", "state", "ledger", "data", "evaluation", "logits")


def verify_bundle(folder: Path, keys: Iterable[PublicKey], pins: Pins, package: Digest) -> Verified:
    """Check a bundle; nothing in it is changed.

    Args:
        folder: The bundle.
        keys: That may have signed it.
        pins: The data set that it has to be of.
        package: Digest of the program that it has to be of.
    """
    try:
        found = bundles.read(folder)
        if bundles.without_stores(folder):
            return Verified(bundle=found, failures=(NO_STORES,), unproven=())
        listed = bundles.read_list(folder)
    except ShardrelError as err:
        return _unreadable(err)
    problems = [*_structure(found, listed, list(keys), package), *_facts(found, pins)]
    here = found.audit.machine == machine()
    try:
        problems += _recomputed(found, pins, here=here)
    except ShardrelError as err:
        problems.append(Problem(check="recompute", subject=err.code.value))
    return Verified(bundle=found, failures=tuple(problems), unproven=() if here else ("evaluation", "logits"))


def verify_records(folder: Path, keys: Iterable[PublicKey], pins: Pins, package: Digest) -> Verified:
    """Check what the records of a bundle say of each other, whether or not its stores are there.

    Args:
        folder: The bundle.
        keys: That may have signed it.
        pins: The data set that it has to be of.
        package: Digest of the program that is here: of records that another one made it is told, and no failure.
    """
    try:
        found = bundles.read(folder)
    except ShardrelError as err:
        return _unreadable(err)
    other = () if found.audit.package == package else ("package",)
    failures = (*_signed(found, list(keys)), *_facts(found, pins))
    return Verified(bundle=found, failures=failures, unproven=(*other, *_IN_STORES))


def _unreadable(err: ShardrelError) -> Verified:
    subject = str(err.context.get("name") or err.context.get("kind") or "bundle")
    return Verified(bundle=None, failures=(Problem(check="structure", subject=f"{subject}: {err.code}"),), unproven=())


def _judged(found: Bundle) -> list[Problem]:
    return judge(found.reference, found.recovered, found.recovery, found.audit.ranks)


def _structure(found: Bundle, listed: bytes, keys: Sequence[PublicKey], package: Digest) -> Iterator[Problem]:
    yield from _signed(found, keys)
    yield from _retained(found, listed, keys)
    if found.audit.package != package:
        yield Problem(check="package", subject="digest")


def _signed(found: Bundle, keys: Sequence[PublicKey]) -> Iterator[Problem]:
    for name in bundles.strays(found.folder):
        yield Problem(check="structure", subject=name)
    if bundles.digests(found.folder) != found.audit.files:
        yield Problem(check="binding", subject="files")
    try:
        if unsealed(found.signature, EVIDENCE_PAYLOAD, keys) != found.audit_bytes:
            yield Problem(check="signature", subject="payload")
    except ShardrelError as err:
        yield Problem(check="signature", subject=err.code.value)


def _retained(found: Bundle, listed: bytes, keys: Sequence[PublicKey]) -> Iterator[Problem]:
    """The stores hold the files that were listed when the bundle was made, all of them and no others."""
    try:
        said = inventory.opened(listed, keys)
        seen = inventory.take(found.folder / bundles.STORES)
    except ShardrelError as err:
        yield Problem(check="retained", subject=err.code.value)
        return
    if said.audit != digest_of(found.audit_bytes):
        yield Problem(check="binding", subject="retained")
    for path in inventory.differences(said.files, seen):
        yield Problem(check="retained", subject=path)


def _facts(found: Bundle, pins: Pins) -> Iterator[Problem]:
    judged = _judged(found)
    yield from judged
    if found.audit.outcome != ("different" if judged else "exact"):
        yield Problem(check="binding", subject="outcome")
    if found.audit.barrier != found.recovery.barrier:
        yield Problem(check="binding", subject="barrier")
    stated = [Resource(name=one.name, digest=one.digest) for one in found.audit.resources]
    if stated != list(pins.resources):
        yield Problem(check="data", subject="resources")


def _recomputed(found: Bundle, pins: Pins, *, here: bool) -> Iterator[Problem]:
    stores = {name: LocalStore(found.folder / bundles.STORES / name) for name in STORES}
    kept = {name: retained(store, DATASET, RUN) for name, store in stores.items()}
    empty = [name for name, states in kept.items() if not states]
    if empty:
        yield Problem(check="recompute", subject=f"{empty[0]}: no checkpoint")
        return
    for lineage in found.recovery.lineages:
        if tuple(one.fact for one in kept[lineage.store]) != lineage.checkpoints:
            yield Problem(check="state", subject=f"{lineage.store}: recomputed")
    if kept["reference"][0].installed.digest != kept["crash"][0].installed.digest:
        yield Problem(check="lineage", subject="genesis: recomputed")
    root = found.audit.root
    for name, store in stores.items():
        record = store.read(run_key(RUN), max_bytes=json.MAX_RECORD_BYTES)
        if record is None or json.decode(record.data, RunRecord).root != root:
            yield Problem(check="binding", subject=f"{name}: root")
    yield from _ledger(found, stores["crash"])
    test = read_split(stores["crash"], root, "test")
    yield from _data(stores["crash"], root, pins, test)
    if here:
        yield from _evaluated(found.reference, kept["reference"], test)
        yield from _evaluated(found.recovered, kept["crash"], test)


def _ledger(found: Bundle, store: LocalStore) -> Iterator[Problem]:
    """What any run on this release with this seed must have consumed."""
    release = json.decode(get_by_digest(store, found.audit.root), Release)
    sizes = tuple(count_split(get(store, shard_descriptor(one)), one, "train") for one in release.shards)
    if sum(sizes) != split_records(release, "train"):
        yield Problem(check="ledger", subject="sizes: recomputed")
    order = SampleOrder(sizes=sizes, seed=found.audit.seed, block_shards=8)
    cut, cuts = ledger.genesis(found.audit.root), {}
    for _ in range(3):
        cut = ledger.replay(cut, order, found.audit.global_batch, 1)
        cuts[cut.step] = cut
    for lineage in found.recovery.lineages:
        for one in lineage.checkpoints:
            expected = cuts.get(one.step)
            if expected is None or (one.ledger, one.cursor) != (expected.ledger, expected.cursor):
                yield Problem(check="ledger", subject=f"{lineage.store}-{one.generation}: recomputed")


def _data(store: LocalStore, root: str, pins: Pins, test: Split) -> Iterator[Problem]:
    """The release holds the pinned files, byte for byte."""
    train = read_split(store, root, "train")
    again = rebuilt(pins, (train.images, train.labels), (test.images, test.labels))
    for one, wanted in zip(again, pins.resources, strict=True):
        if one != wanted:
            yield Problem(check="data", subject=f"{one.name}: recomputed")


def _evaluated(said: Evaluation, kept: Sequence[Retained], test: Split) -> Iterator[Problem]:
    of: Callable[[Retained], bool] = lambda one: one.fact.generation == said.checkpoint.generation  # noqa: E731
    for one in filter(of, kept):
        again = evaluate(test, said.path, one.fact, one.state)
        if (again.samples, again.correct, again.loss) != (said.samples, said.correct, said.loss):
            yield Problem(check="evaluation", subject=f"{said.path}: recomputed")
        if (again.logits, again.logits_digest) != (said.logits, said.logits_digest):
            yield Problem(check="logits", subject=f"{said.path}: recomputed")

"""verify: everything that can be wrong with a release, and a signed report of it. Source: schemas/SPEC.md#verification"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from shardrel.canonical import json
from shardrel.canonical.sha import expect_rows
from shardrel.digest import parse_digest
from shardrel.errors import ErrorCode, FormatError, IntegrityError, NotFoundError
from shardrel.gate.attestations import attach
from shardrel.gate.evidence import gather
from shardrel.gate.facts import Evidence
from shardrel.gate.former import former_publishers
from shardrel.gate.view import GateView
from shardrel.records.descriptor import Descriptor
from shardrel.records.fields import Record
from shardrel.records.release import Release
from shardrel.records.report import (
    PROVENANCE_PREDICATE,
    REPORT_PREDICATE,
    STATEMENT_PAYLOAD,
    SUMMARY_PREDICATE,
    LogRange,
    Report,
)
from shardrel.records.schema import RecordSchema
from shardrel.records.snapshot import MemberIndex, Snapshot
from shardrel.store.named import get_named
from shardrel.store.objects import get_by_digest, get_record
from shardrel.store.port import Store
from shardrel.trust.envelope import seal
from shardrel.trust.key_encryption import Unlocked
from shardrel.trust.sealed_parts import PartsKey
from shardrel.trust.signer import Signer
from shardrel.trust.statement import statement
from verifier import fences, manifest, snapshot_totals
from verifier.encryption import open_index, open_snapshot
from verifier.evolution import check_evolution
from verifier.logs import Ends, Logs, Target, fences_of, read_logs
from verifier.membership import Membership, Read, borders_of, compare_all, read, total_spots, tree_spots
from verifier.pool import in_order
from verifier.provenance import check_provenance
from verifier.report import Subject, report_of, summary_of
from verifier.runs import Runs
from verifier.schema import is_sound
from verifier.shard import Scan, examine
from verifier.structure import FlawError
from verifier.tally import Spot, Tally

R = TypeVar("R", bound=Record)
Progress = Callable[[int, int], None]
Splits = dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a verification needs of the world outside.

    Attributes:
        signer: A key of the policy's verifier role.
        now: The time as RFC 3339 text, for people; no check reads it.
        progress: Told (shards done, shards in all).
        workers: Threads over shards and ranges.
        unlocked: Keys to read what is encrypted.
    """

    signer: Signer
    now: Callable[[], str]
    progress: Progress
    workers: int = 2
    unlocked: Unlocked = field(default_factory=Unlocked)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """A signed verification.

    Attributes:
        report_digest: Of the envelope that holds the report.
        summary_digest: Of the envelope that holds the SLSA verification summary; None for a report that was there
            before, behind which nothing is new.
        entries: Sequences of the tombstones and of the benchmarks that hits are of; None where nobody looked for them.
    """

    report: Report
    report_digest: str
    summary_digest: str | None
    entries: tuple[tuple[int, ...], tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """Records that a root names, each None where it could not be read; keys of the parts of snapshot and index."""

    snapshot: Snapshot | None
    schema: RecordSchema | None
    index: MemberIndex | None
    keys: tuple[PartsKey | None, PartsKey | None]


def verify_release(store: Store, root: str, gate: GateView, *, world: World) -> VerifyResult:
    """Verify a release from its root's digest, at the gate's fences of now.

    A release that is bad in any way, or absent, gives a FAILED report.

    Raises:
        UnavailableError: The store does not answer; nothing is signed.
        FormatError: ``format.not-a-record`` when ``root`` is no digest.
        InvalidInputError: ``input.invalid`` when it is that of a record of another kind, such as a snapshot, and the
            gate knows no such root; nothing is signed.
        IntegrityError: ``gate.history-broken`` when a fence log is not what the gate says.
        RefusedError: ``encryption.reader``, ``encryption.key``, ``encryption.key-version`` when the caller has
            no key for it: what was not seen is not judged, so nothing is signed.

    Effects: two envelopes about the root, report first; a crash leaves none or the report alone.
    """
    started, tally = world.now(), Tally()
    # 1. The gate's logs, and the root by its digest.
    target = fences_of(gate.body)
    logs = read_logs(store, target)
    release = _root(store, parse_digest(root), tally, known=root in gate.body.candidates)
    if release is not None:
        tally.add(_manifest_spots(root, release, gate))
        # 2. What the root names by descriptor.
        declared = _declared(store, release, world.unlocked, tally)
        # 3. to 7. and 9. Every byte, and every member: its content, its tuple and a node of the tree.
        expect_rows(3 * release.totals.records)
        _inspect(store, root, release, declared, logs, world, tally)
        # 8. Who says how it was made.
        evidence = gather(store, root, gate.policy)
        tally.add(_provenance_spots(store, root, release, gate, evidence))
        # 10. What the record schema was compared with.
        tally.add(check_evolution(store, root, release, gate, evidence.evolutions))
    report = report_of(
        subject_of(root, gate, logs, target),
        tally.findings(),
        kind="full",
        shards=0 if release is None else len(release.shards),
        records=0 if release is None else release.totals.records,
        times=(started, world.now()),
    )
    return sign(store, report, gate, world.signer)


def sign(store: Store, report: Report, gate: GateView, signer: Signer) -> VerifyResult:
    """Sign and attach a report and its summary.

    Effects: two envelopes about the root, report first.
    """
    sealed = seal(statement(report.root, REPORT_PREDICATE, report, report.dataset), STATEMENT_PAYLOAD, [signer])
    digest = attach(store, report.root, sealed)
    summary = summary_of(report, gate.body.policy.digest, digest)
    sealed = seal(statement(report.root, SUMMARY_PREDICATE, summary, report.dataset), STATEMENT_PAYLOAD, [signer])
    return VerifyResult(report=report, report_digest=digest, summary_digest=attach(store, report.root, sealed))


def subject_of(root: str, gate: GateView, logs: Logs, target: Target, after: tuple[int, int] = (0, 0)) -> Subject:
    """What a report is about: the root, the gate, and the log entries behind ``after`` up to the target."""
    body = gate.body
    return Subject(
        root=root,
        dataset=body.dataset,
        gate_id=body.gate_id,
        gate_sequence=body.sequence,
        tombstones=_range(logs.ends[0], after[0], target.tombstones.watermark),
        benchmarks=_range(logs.ends[1], after[1], target.benchmarks.watermark),
    )


def _range(ends: Ends, after: int, last: int) -> LogRange:
    if last <= after:
        return LogRange(first=0, last=0, log=None)
    return LogRange(first=after + 1, last=last, log=ends[last], after=ends.get(after))


def _root(store: Store, root: str, tally: Tally, *, known: bool) -> Release | None:
    if known:
        return _noted(tally, root, lambda: json.decode(get_by_digest(store, root), Release))
    return _noted(tally, root, lambda: get_named(store, root, Release))


def _noted(tally: Tally, subject: str, read: Callable[[], R]) -> R | None:
    """What is read; what is wrong with its bytes becomes a finding about ``subject``."""
    try:
        return read()
    except (NotFoundError, IntegrityError, FormatError) as err:
        tally.add([Spot(code=err.code, subject=subject, detail=err.message)])
        return None


def _manifest_spots(root: str, release: Release, gate: GateView) -> Sequence[Spot]:
    return [
        *manifest.against_gate(root, release, gate.body),
        *manifest.named_objects(root, release),
        *manifest.shard_list(root, release),
    ]


def _provenance_spots(store: Store, root: str, release: Release, gate: GateView, evidence: Evidence) -> Sequence[Spot]:
    return check_provenance(
        root,
        release.dataset_snapshot,
        evidence.provenance,
        threshold=gate.policy.roles.publisher.threshold,
        former=lambda: former_publishers(store, gate, root, PROVENANCE_PREDICATE),
    )


def _declared(store: Store, release: Release, unlocked: Unlocked, tally: Tally) -> _Declared:
    objects = release.objects
    unlocked.check(release.encryption)
    tally.nameless = release.encryption is not None
    schema = _named(store, objects.record_schema, RecordSchema, tally)
    if schema is not None and not is_sound(schema):
        subject = objects.record_schema.digest
        tally.add([Spot(code=ErrorCode.RECORD_SCHEMA, subject=subject, detail="no source has such columns")])
        schema = None
    snapshot = _named(store, objects.snapshot, Snapshot, tally)
    if snapshot is not None:
        unlocked.check(snapshot.encryption)
        tally.nameless = tally.nameless or snapshot.encryption is not None
    index = _named(store, objects.member_index, MemberIndex, tally)
    listed, snapshot_key = _legible(snapshot, lambda one: open_snapshot(one, unlocked), objects.snapshot, tally)
    indexed, index_key = _legible(index, lambda one: open_index(one, release, unlocked), objects.member_index, tally)
    return _Declared(snapshot=listed, schema=schema, index=indexed, keys=(snapshot_key, index_key))


def _legible(
    record: R | None, opened: Callable[[R], tuple[R, PartsKey | None]], named: Descriptor, tally: Tally
) -> tuple[R | None, PartsKey | None]:
    """A record whose parts can be read, and their key; what is wrong with its encryption becomes a finding."""
    if record is None:
        return None, None
    try:
        return opened(record)
    except FlawError as flaw:
        tally.add([Spot(code=flaw.code, subject=named.digest, detail=flaw.detail)])
        return None, None


def _named(store: Store, descriptor: Descriptor, kind: type[R], tally: Tally) -> R | None:
    return _noted(tally, descriptor.digest, lambda: get_record(store, descriptor, kind))


def _inspect(
    store: Store, root: str, release: Release, declared: _Declared, logs: Logs, world: World, tally: Tally
) -> None:
    snapshot, index = declared.snapshot, declared.index
    usable = _check_records(root, release, snapshot, index, tally)
    with tempfile.TemporaryDirectory(prefix="shardrel-verify-") as folder, ThreadPoolExecutor(world.workers) as pool:
        runs = Runs(Path(folder), borders_of(snapshot) if snapshot is not None and usable else [])
        membership = None
        if snapshot is not None and usable:
            membership = Membership(
                store=store,
                release=release,
                snapshot=snapshot,
                index=index,
                runs=runs,
                excluded=fences.left_out(logs, release.tombstone_watermark, release.benchmark_fence),
                keys=declared.keys,
            )
        ahead: dict[int, Future[Read]] = {}

        def read_ahead() -> None:
            # Threads that have no shard left read for the first ranges, while the others have one.
            if membership is not None:
                firsts = range(min(world.workers, runs.ranges))
                ahead.update((number, pool.submit(read, membership, number)) for number in firsts)

        try:
            splits = None
            if declared.schema is not None:
                tally.add(manifest.text_columns(release, declared.schema))
                scan = _scan(store, release, declared.schema, logs, world.unlocked)
                splits = examine_all(scan, runs, pool, world, tally, read_ahead)
            tally.add(manifest.totals(root, release, splits))
            if membership is None:
                return
            outcome = compare_all(membership, pool, world.workers + 1, tally, ahead)
        finally:
            # Where something else has failed, and they have not begun; threads that are still at work take some out.
            for reading in list(ahead.values()):
                reading.cancel()
        runs.drop(pool)
    if splits is not None:
        tally.add(tree_spots(membership, root, outcome.tree))
        tally.add(total_spots(membership, splits, outcome))


def _check_records(
    root: str, release: Release, snapshot: Snapshot | None, index: MemberIndex | None, tally: Tally
) -> bool:
    """Whether the snapshot's parts can be used as ranges."""
    if index is not None:
        tally.add(manifest.member_index(index, release, release.objects.member_index.digest))
    if snapshot is None:
        return False
    tally.add(manifest.against_snapshot(root, release, snapshot))
    tally.add(snapshot_totals.sums(snapshot, release.dataset_snapshot))
    wrong = list(manifest.snapshot_parts(snapshot, release.dataset_snapshot))
    tally.add(wrong)
    return not wrong


def _scan(store: Store, release: Release, schema: RecordSchema, logs: Logs, unlocked: Unlocked) -> Scan:
    return Scan(
        store=store,
        release=release,
        schema=schema,
        tombstones=fences.tombstones(logs.tombstones, json.MAX_INTEGER),
        benchmarks=fences.benchmarks(logs.benchmarks, json.MAX_INTEGER),
        unlocked=unlocked,
    )


def examine_all(
    scan: Scan, runs: Runs, pool: ThreadPoolExecutor, world: World, tally: Tally, begun: Callable[[], None]
) -> Splits | None:
    """Examine every shard; records and tokens by split, or None when one could not be read.

    Args:
        scan: What shards are examined with.
        runs: Get their members.
        pool: Where they are examined.
        world: Told of the progress.
        tally: Gets what is found.
        begun: Called when the last shard has been given to the pool.
    """

    def numbers() -> Iterator[int]:
        yield from range(count)
        begun()

    def work(number: int) -> Splits | None:
        examined = examine(scan, scan.release.shards[number])
        tally.add(examined.spots)
        if examined.run is None:
            return None
        runs.put(number, examined.run)
        return examined.splits

    total: Splits = {}
    complete = True
    count = len(scan.release.shards)
    for done, splits in enumerate(in_order(pool, work, numbers(), 2 * world.workers), start=1):
        complete = complete and splits is not None
        for name, (records, tokens) in (splits or {}).items():
            before = total.get(name, (0, 0))
            total[name] = (before[0] + records, before[1] + tokens)
        world.progress(done, count)
    return total if complete else None

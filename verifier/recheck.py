"""recheck: only what the fence logs took in since a root last passed. Source: schemas/SPEC.md#verification"""

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from shardrel.canonical import json
from shardrel.digest import parse_digest
from shardrel.errors import ErrorCode, IntegrityError, RefusedError
from shardrel.gate.evidence import gather
from shardrel.gate.facts import SeenReport
from shardrel.gate.view import GateView
from shardrel.records.gate import GateBody
from shardrel.records.release import Release
from shardrel.records.report import Report
from shardrel.records.schema import RecordSchema
from shardrel.records.snapshot import Snapshot
from shardrel.store.objects import get_by_digest, get_record
from shardrel.store.port import Store
from shardrel.trust.keys import key_id
from shardrel.trust.policy import is_met
from verifier import fences
from verifier.encryption import open_snapshot
from verifier.logs import Logs, Target, fences_of, read_logs
from verifier.parts import Listed, read_snapshot_part
from verifier.pool import in_order
from verifier.report import report_of
from verifier.runs import Runs
from verifier.shard import Scan
from verifier.structure import FlawError
from verifier.tally import Spot, Tally
from verifier.verify import VerifyResult, World, examine_all, sign, subject_of

Position = tuple[int, int]


def recheck_fences(
    store: Store, root: str, gate: GateView, *, world: World, target: Target | None = None
) -> VerifyResult:
    """Look for members that the entries behind the last PASSED report name, up to the gate's watermarks.

    That report says that the release holds exactly its snapshot's members, so the tuples are read from
    there; the shards are read again only where an entry selects by text.

    Args:
        target: Another end than the gate's fences: what is staged behind one.

    Returns:
        The report that reaches the target; one that was there before where nothing came behind it.

    Raises:
        RefusedError: ``gate.not-verified`` when no trusted report of this root passed in full;
            ``encryption.reader``, ``encryption.key``, ``encryption.key-version`` when the caller has no key for it.
        NotFoundError, IntegrityError, FormatError: The root or its snapshot is not what it was; verify in full.
        UnavailableError: The store does not answer; nothing is signed.

    Effects: two envelopes about the root, report first; none where there is nothing new.
    """
    started, tally = world.now(), Tally()
    release = json.decode(get_by_digest(store, parse_digest(root)), Release)
    tally.nameless = release.encryption is not None
    # 1. The entries, and where the last PASSED chain of reports over them ends.
    target = target or fences_of(gate.body)
    logs = read_logs(store, target)
    last = last_passed(store, root, gate, logs, key_id(world.signer.public))
    if last.watermarks == target.watermarks:
        return VerifyResult(report=last.seen.report, report_digest=last.seen.envelope, summary_digest=None)
    after = last.watermarks
    # 2. Those since, and those that the publisher left out.
    tombstones = fences.tombstones(logs.tombstones, json.MAX_INTEGER, first=after[0] + 1)
    benchmarks = fences.benchmarks(logs.benchmarks, json.MAX_INTEGER, first=after[1] + 1)
    # 3. Their hits.
    if benchmarks.by_text:
        world.unlocked.check(release.encryption)
        _rescan(store, release, (tombstones, benchmarks), world, tally)
    elif not (tombstones.empty and benchmarks.empty):
        _look_up(store, release, logs, (tombstones, benchmarks), world, tally)
    report = report_of(
        subject_of(root, gate, logs, target, after),
        tally.findings(),
        kind="delta",
        shards=len(release.shards),
        records=release.totals.records,
        times=(started, world.now()),
    )
    return sign(store, report, gate, world.signer)


@dataclass(frozen=True, slots=True)
class Last:
    """How far PASSED reports reach (tombstones, benchmarks), and the one that reaches it."""

    watermarks: Position
    seen: SeenReport


def last_passed(store: Store, root: str, gate: GateView, logs: Logs, signer: str) -> Last:
    """The furthest place in these logs that PASSED reports over them reach.

    A report counts that is of the verifier itself, or of as many verifiers as the policy asks for: what another one
    says alone is for this one to say too.

    Raises:
        RefusedError: ``gate.not-verified``.
    """
    body = gate.body
    candidate = body.candidates.get(root)
    since = candidate.sequence if candidate is not None and candidate.state == "INVALID" else 0
    said = [seen for seen in gather(store, root, gate.policy).reports if _about(seen.report, root, body)]
    ours = [seen for seen in said if signer in seen.key_ids or _is_met(seen, said, gate)]
    reached: dict[Position, SeenReport] = {}
    for seen in ours:
        at = _end(seen.report, (0, 0), logs)
        if seen.report.kind == "full" and seen.report.gate_sequence >= since and at is not None:
            reached.setdefault(at, seen)
    deltas = [seen for seen in ours if seen.report.kind == "delta"]
    while more := {
        end: seen for at in reached for seen in deltas if (end := _end(seen.report, at, logs)) and end not in reached
    }:
        reached |= more
    if not reached:
        raise RefusedError(
            ErrorCode.GATE_NOT_VERIFIED, "no full report of this root passed; verify it in full", root=root
        )
    furthest = max(reached, key=lambda at: (sum(at), at))
    return Last(furthest, reached[furthest])


def _about(report: Report, root: str, body: GateBody) -> bool:
    return (report.root, report.dataset, report.gate_id) == (root, body.dataset, body.gate_id) and _passed(report)


def _is_met(seen: SeenReport, said: Sequence[SeenReport], gate: GateView) -> bool:
    """Whether enough verifiers said the same of the same entries."""

    def same(one: Report) -> object:
        return one.kind, one.tombstones, one.benchmarks

    keys = [other.key_ids for other in said if same(other.report) == same(seen.report)]
    return is_met(gate.policy.roles.verifier, frozenset[str]().union(*keys))


def _passed(report: Report) -> bool:
    return (
        report.verdict == "PASSED"
        and report.findings_total == 0
        and not any(msgspec.structs.asdict(report.counts).values())
    )


def _end(report: Report, at: Position, logs: Logs) -> Position | None:
    """Where a report that begins right after ``at`` ends; None when it begins elsewhere, or is not over these logs."""
    reached = []
    for seen, start, ends in zip((report.tombstones, report.benchmarks), at, logs.ends, strict=True):
        if (seen.first, seen.last) == (0, 0):
            reached.append(start)
            continue
        if seen.first != start + 1 or seen.after != ends.get(start) or seen.log is None:
            return None
        if ends.get(seen.last) != seen.log:
            return None
        reached.append(seen.last)
    return reached[0], reached[1]


def _rescan(
    store: Store, release: Release, selectors: tuple[fences.Selectors, fences.Selectors], world: World, tally: Tally
) -> None:
    schema = get_record(store, release.objects.record_schema, RecordSchema)
    scan = Scan(
        store=store,
        release=release,
        schema=schema,
        tombstones=selectors[0],
        benchmarks=selectors[1],
        unlocked=world.unlocked,
    )
    with tempfile.TemporaryDirectory(prefix="shardrel-verify-") as folder, ThreadPoolExecutor(world.workers) as pool:
        examine_all(scan, Runs(Path(folder), []), pool, world, tally)


def _look_up(
    store: Store,
    release: Release,
    logs: Logs,
    selectors: tuple[fences.Selectors, fences.Selectors],
    world: World,
    tally: Tally,
) -> None:
    snapshot = get_record(store, release.objects.snapshot, Snapshot)
    world.unlocked.check(snapshot.encryption)
    tally.nameless = tally.nameless or snapshot.encryption is not None
    try:
        snapshot, parts_key = open_snapshot(snapshot, world.unlocked)
    except FlawError as flaw:
        raise IntegrityError(flaw.code, flaw.detail, snapshot=release.dataset_snapshot) from flaw
    left_out = fences.left_out(logs, release.tombstone_watermark, release.benchmark_fence)
    lowers = [None, *(part.last_sample_id for part in snapshot.parts)]

    def work(number: int) -> None:
        try:
            listed = read_snapshot_part(store, snapshot.parts[number], lowers[number], parts_key)
        except FlawError as flaw:
            tally.add([Spot(code=flaw.code, subject=release.dataset_snapshot, detail=flaw.detail)])
            return
        tally.add(_hits(listed.where(~fences.named(left_out, listed)), selectors, release.dataset_snapshot))

    count = len(snapshot.parts)
    with ThreadPoolExecutor(world.workers) as pool:
        for done, _ in enumerate(in_order(pool, work, range(count), 2 * world.workers), start=1):
            world.progress(done, count)


def _hits(listed: Listed, selectors: tuple[fences.Selectors, fences.Selectors], subject: str) -> Iterator[Spot]:
    for code, chosen in zip((ErrorCode.TOMBSTONE_HIT, ErrorCode.BENCHMARK_HIT), selectors, strict=True):
        places = np.flatnonzero(fences.named((chosen,), listed))
        if len(places):
            first = listed.ids[int(places[0])].as_py()
            yield Spot(code=code, subject=subject, count=len(places), sample_id=first)

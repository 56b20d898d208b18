"""recheck: only what the fence logs took in since a root last passed. Source: schemas/SPEC.md#verification"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from shardrel.canonical import json
from shardrel.digest import parse_digest
from shardrel.errors import ErrorCode, RefusedError
from shardrel.gate.evidence import gather
from shardrel.gate.facts import SeenReport
from shardrel.gate.view import GateView
from shardrel.records.gate import GateBody
from shardrel.records.release import Release
from shardrel.records.report import Report
from shardrel.store.named import get_named
from shardrel.store.port import Store
from shardrel.trust.keys import key_id
from shardrel.trust.policy import is_met
from verifier import fences
from verifier.hits import count_hits
from verifier.logs import Logs, Target, fences_of, read_logs
from verifier.report import report_of
from verifier.tally import Tally
from verifier.verify import VerifyResult, World, sign, subject_of

Position = tuple[int, int]


def recheck_fences(
    store: Store, root: str, gate: GateView, *, world: World, target: Target | None = None
) -> VerifyResult:
    """Look for members that the entries behind the last PASSED report name, up to the gate's watermarks.

    That report says that the release holds exactly its snapshot's members, so the tuples are read from
    there; the shards are read again, for hits alone, only where an entry selects by text.

    Args:
        target: Another end than the gate's fences: what is staged behind one.

    Returns:
        The report that reaches the target; one that was there before where nothing came behind it.

    Raises:
        RefusedError: ``gate.not-verified`` when no trusted report of this root passed in full;
            ``encryption.reader``, ``encryption.key``, ``encryption.key-version`` when the caller has no key for it.
        NotFoundError, IntegrityError, FormatError: The root or its snapshot is not what it was; verify in full.
        InvalidInputError: ``input.invalid`` when it is the digest of a record of another kind.
        UnavailableError: The store does not answer; nothing is signed.

    Effects: two envelopes about the root, report first; none where there is nothing new.
    """
    started, tally = world.now(), Tally()
    release = get_named(store, parse_digest(root), Release)
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
    count_hits(store, release, logs, (tombstones, benchmarks), world, tally)
    report = report_of(
        subject_of(root, gate, logs, target, after),
        tally.findings(),
        kind="delta",
        shards=len(release.shards),
        records=release.totals.records,
        times=(started, world.now()),
    )
    named = None if tally.entries is None else (_ascending(tally.entries[0]), _ascending(tally.entries[1]))
    return replace(sign(store, report, gate, world.signer), entries=named)


def _ascending(sequences: set[int]) -> tuple[int, ...]:
    return tuple(sorted(sequences))


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
            ErrorCode.GATE_NOT_VERIFIED,
            f"no full report of this root passed; run: shardrel verify {root}",
            root=root,
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

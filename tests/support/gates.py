"""Keys, policies and attestations for tests of the gate: real keys, real envelopes, any store."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from msgspec.structs import replace

from shardrel.canonical import json
from shardrel.digest import digest_of
from shardrel.gate.attestations import attach
from shardrel.gate.call import Call
from shardrel.gate.init import init
from shardrel.gate.publication import begin_publication, end_publication
from shardrel.gate.view import GateView, read_gate
from shardrel.records.gate import Fence, GateBody
from shardrel.records.policy import Policy, PublicKey
from shardrel.records.report import (
    APPROVAL_PREDICATE,
    REPORT_PREDICATE,
    STATEMENT_PAYLOAD,
    Approval,
    Counts,
    LogRange,
    Report,
)
from shardrel.store.port import Store
from shardrel.trust.envelope import seal
from shardrel.trust.keyring import DEFAULT_NAMES
from shardrel.trust.keys import SigningKey, generate
from shardrel.trust.policy import default_policy
from shardrel.trust.statement import statement

NOW = "2026-01-31T12:00:00Z"
DATASET = "corpus"
SNAPSHOT = digest_of(b"a snapshot")


@cache
def key(name: str) -> SigningKey:
    """The test key of this name, the same for the whole session."""
    return generate(name)


def publics(*names: str) -> tuple[PublicKey, ...]:
    """Public keys of these names."""
    return tuple(key(name).public for name in names)


def a_policy() -> Policy:
    """The default policy over the test keys."""
    return default_policy({name: key(name).public for name in DEFAULT_NAMES})


def call(*signers: str, operation_id: str | None = None) -> Call:
    """A call signed by these test keys, by default the admin's."""
    keys: Sequence[SigningKey] = [key(name) for name in signers or ("admin",)]
    return Call(signers=keys, recorded_at=NOW, operation_id=operation_id, pending=None)


def a_root(name: str) -> str:
    """A digest that stands for a root manifest; the gate never reads one."""
    return digest_of(b"root " + name.encode())


def log_range(first: int, last: int, fence: Fence | None, after: Fence | None = None) -> LogRange:
    """The range of a report over the newest chunk of a fence, behind that of an earlier one."""
    log = None if fence is None or fence.log is None or last == 0 else fence.log.digest
    return LogRange(
        first=first, last=last, log=log, after=None if after is None or after.log is None else after.log.digest
    )


def range_behind(fence: Fence, at: int, newest_first: Sequence[LogRange]) -> LogRange:
    """The range of a delta report from a position that earlier reports reached up to the watermark."""
    if at == fence.watermark:
        return log_range(0, 0, None)
    after = next((seen.log for seen in newest_first if seen.last == at), None)
    return replace(log_range(at + 1, fence.watermark, fence), after=after)


def full_range(fence: Fence) -> LogRange:
    """The range of a full report: from the first entry to the watermark."""
    return log_range(min(1, fence.watermark), fence.watermark, fence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Which entries of both logs a report covers."""

    tombstones: LogRange
    benchmarks: LogRange


def a_report(body: GateBody, root: str, *, ranges: Ranges | None = None, kind: str = "full", hits: int = 0) -> Report:
    """A report about a root at the gate's present state, PASSED unless there are hits."""
    ranges = ranges or Ranges(tombstones=full_range(body.tombstones), benchmarks=full_range(body.benchmarks))
    return Report(
        kind="delta" if kind == "delta" else "full",
        root=root,
        dataset=body.dataset,
        gate_id=body.gate_id,
        gate_sequence=body.sequence,
        verdict="FAILED" if hits else "PASSED",
        tombstones=ranges.tombstones,
        benchmarks=ranges.benchmarks,
        counts=Counts(tombstone_hits=hits),
        findings=(),
        findings_total=hits,
        shards=1,
        records=1,
        checks=("tests",),
        verifier="tests",
        started_on=NOW,
        finished_on=NOW,
    )


def an_approval(body: GateBody, root: str) -> Approval:
    """An approval given at the gate's present state."""
    return Approval(root=root, dataset=body.dataset, gate_id=body.gate_id, gate_sequence=body.sequence, approved_on=NOW)


def attach_report(store: Store, report: Report, *signers: str) -> str:
    """Sign a report and attach it."""
    payload = statement(report.root, REPORT_PREDICATE, report, "root")
    return attach(
        store, report.root, seal(payload, STATEMENT_PAYLOAD, [key(name) for name in signers or ("verifier",)])
    )


def attach_approval(store: Store, approval: Approval, *signers: str) -> str:
    """Sign an approval and attach it."""
    payload = statement(approval.root, APPROVAL_PREDICATE, approval, "root")
    keys = [key(name) for name in signers or ("approver",)]
    return attach(store, approval.root, seal(payload, STATEMENT_PAYLOAD, keys))


def new_gate(store: Store, policy: Policy | None = None, dataset: str = DATASET) -> GateView:
    """A fresh gate under the policy."""
    init(store, dataset, policy or a_policy(), call())
    return read_gate(store, dataset)


def attest(store: Store, root: str, dataset: str = DATASET) -> None:
    """Attach a PASSED full report and an approval, both of now."""
    body = read_gate(store, dataset).body
    attach_report(store, a_report(body, root))
    attach_approval(store, an_approval(body, root))


def body_digest(body: GateBody) -> str:
    """Digest that a transition names for this body."""
    return digest_of(json.encode(body))


def stage(store: Store, root: str, dataset: str = DATASET) -> None:
    """Make the root a candidate, through a publication."""
    name = "pub-" + root[-12:]
    begin_publication(store, dataset, name, SNAPSHOT, call("publisher"))
    end_publication(store, dataset, name, root, call("publisher"))

"""status: the gate as it is now, for people and scripts. Source: schemas/SPEC.md#gate-state."""

from dataclasses import dataclass

from shardrel.gate.candidates import CandidateState, state_of
from shardrel.gate.evidence import gather
from shardrel.gate.facts import Evidence
from shardrel.gate.past import Past
from shardrel.gate.retention import Wanted, keep
from shardrel.gate.view import GateView, read_gate
from shardrel.records.gate import Alias, FenceKind, GateBody, Permit, Publication, Retention, Run
from shardrel.store.port import Store

_NO_PAST = Past(moves=(), ended={})
_NOTHING = Evidence(signers=frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the gate holds.

    Attributes:
        staged: Up to where entries are staged, by log; a log without any is left out.
        pins: What holds a root, by root, as far as the state alone tells; the window and kept checkpoints, which are
            in the history, are what ``gc --dry-run`` shows.
        candidates: State by root; VERIFIED is a STAGED root that trusted reports carry to today's fences.
    """

    dataset: str
    gate_id: str
    sequence: int
    policy: str
    head: str
    tombstone_watermark: int
    benchmark_fence: int
    staged: dict[FenceKind, int]
    aliases: dict[str, Alias]
    permits: dict[str, Permit]
    runs: dict[str, Run]
    publications: dict[str, Publication]
    retention: Retention
    pins: dict[str, tuple[str, ...]]
    candidates: dict[str, CandidateState]


def read_status(store: Store, dataset: str) -> Status:
    """Read the gate; for each STAGED root, also what is attached to it.

    Raises:
        NotFoundError: ``gate.absent``.
        IntegrityError: ``gate.history-broken``.
    """
    view = read_gate(store, dataset)
    body = view.body
    return Status(
        dataset=body.dataset,
        gate_id=body.gate_id,
        sequence=body.sequence,
        policy=body.policy.digest,
        head=view.state.head,
        tombstone_watermark=body.tombstones.watermark,
        benchmark_fence=body.benchmarks.watermark,
        staged=_staged(body),
        aliases=body.aliases,
        permits=body.permits,
        runs=body.runs,
        publications=body.publications,
        retention=body.retention,
        pins=dict(keep(body, _NO_PAST, Wanted(generations=0)).roots),
        candidates={root: _candidate(store, view, root) for root in sorted(body.candidates)},
    )


def _staged(body: GateBody) -> dict[FenceKind, int]:
    found: dict[FenceKind, int] = {}
    if body.tombstones.staged is not None:
        found["tombstones"] = body.tombstones.staged.watermark
    if body.benchmarks.staged is not None:
        found["benchmarks"] = body.benchmarks.staged.watermark
    return found


def _candidate(store: Store, view: GateView, root: str) -> CandidateState:
    staged = view.body.candidates[root].state == "STAGED"
    evidence = gather(store, root, view.policy) if staged else _NOTHING
    return state_of(view.body, root, evidence, view.policy) or "STAGED"

"""A gate and everybody around it as one small value, for an exhaustive exploration of the rule.

There are the gate's body, what was attested, whose policy holds, which run records are written, and
clients that have decided on an earlier state and whose swap is still to come. A client follows
``register.submit``: after a loss it looks for its own success and decides again, with the real
``Judge`` and the evidence that it has; a client that got no answer asks again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from msgspec.structs import replace as changed

from shardrel.gate.facts import Accept, Evidence, LogFacts, Refuse, SeenApproval, SeenReport
from shardrel.gate.judge import Judge
from shardrel.gate.view import GateView
from shardrel.records.descriptor import RECORD_JSON, Descriptor
from shardrel.records.gate import Candidate, Fence, FenceKind, GateBody, GateState
from shardrel.records.policy import Policy, Role
from shardrel.records.report import LogRange
from shardrel.records.transition import (
    AdvanceFence,
    Effects,
    Init,
    Request,
    Retire,
    Revoke,
    SetPolicy,
    StageFence,
    StartRun,
    Transition,
)
from shardrel.store.port import Token
from shardrel.trust.keys import key_id
from tests.support import gates

# A watermark and the name of the log that leads there; of tombstones and of benchmarks.
Place = tuple[int, str | None]
Position = tuple[Place, Place]


@cache
def policy_of(name: str) -> Policy:
    """Policy ``a`` believes one verifier, policy ``b`` another; all else is the same."""
    base = gates.a_policy()
    believed = Role(keys=(gates.key(f"verifier-{name}").public,), threshold=1)
    return changed(base, roles=changed(base.roles, verifier=believed), max_fence_step=2)


@cache
def named(what: str) -> Descriptor:
    """A descriptor of bytes that nobody reads here."""
    return Descriptor(media_type=RECORD_JSON, digest=gates.a_root(what), size=1)


_BEHIND: dict[str, str | None] = {}


def log_behind(previous: Descriptor | None, kind: FenceKind, last: int, entries: str) -> Descriptor:
    """The log up to an entry, behind another one."""
    before = None if previous is None else previous.digest
    log = named(f"{kind} {last} {entries} behind {before}")
    _BEHIND[log.digest] = before
    return log


def follows(log: str | None, before: str | None) -> bool:
    """Whether a log goes on from another, as its chunks tell."""
    while log is not None and log != before:
        log = _BEHIND[log]
    return log == before


def place(watermark: int, log: Descriptor | None) -> Place:
    """Where a log ends."""
    return watermark, None if log is None else log.digest


@cache
def ids(name: str) -> frozenset[str]:
    """Key id of a test key, as signers are given."""
    return frozenset({key_id(gates.key(name).public)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """What one verifier reported of a root: a full report, then deltas, up to ``end``."""

    reports: tuple[SeenReport, ...]
    end: Position
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a client has gathered for a request, and perhaps long ago."""

    chains: tuple[Chain, ...]
    approval: SeenApproval | None
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A client with a request whose swap is still to come, or whose answer is still to come.

    Attributes:
        effects: How many swaps of this operation have landed.
    """

    request: Request
    known: Known
    effects: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One state.

    Attributes:
        policy: ``a`` or ``b``.
        chains: By root, verifier and whether it led beyond the fences when it was made.
        recorded: Runs whose record is written; ``started`` those that ever started.
        spent: How many revocations, policy changes and retirements there were.
    """

    body: GateBody
    policy: str = "a"
    chains: dict[tuple[str, str, bool], Chain]
    approvals: dict[str, SeenApproval]
    recorded: frozenset[str] = frozenset()
    started: tuple[str, ...] = ()
    spent: tuple[int, int, int] = (0, 0, 0)
    slots: tuple[Slot | None, ...] = ()

    @property
    def fences(self) -> Position:
        """Where both logs stand."""
        both = (self.body.tombstones, self.body.benchmarks)
        return place(both[0].watermark, both[0].log), place(both[1].watermark, both[1].log)

    @property
    def ahead(self) -> Position:
        """Where both logs would stand if what is staged were taken."""
        first, second = (
            place(fence.staged.watermark, fence.staged.log) if fence.staged else place(fence.watermark, fence.log)
            for fence in (self.body.tombstones, self.body.benchmarks)
        )
        return first, second


def beginning(roots: tuple[str, ...], slots: int) -> World:
    """A gate under policy ``a`` that has heard of these roots."""
    fence = Fence(watermark=0, log=None)
    staged = Candidate(state="STAGED", sequence=1, reason=None)
    body = GateBody(
        gate_id="gate", dataset=gates.DATASET, sequence=1, policy=named("policy a"), tombstones=fence,
        benchmarks=fence, aliases={}, candidates=dict.fromkeys(roots, staged), permits={}, runs={}, publications={},
    )  # fmt: skip
    return World(body=body, chains={}, approvals={}, slots=(None,) * slots)


def view_of(world: World) -> GateView:
    """The gate as a client reads it; the judge looks at body and policy alone."""
    state = GateState(body=world.body, head="", envelope="", policy="")
    return GateView(state=state, token=Token(""), policy=policy_of(world.policy), transition=_NOBODYS)


_NOBODYS = Transition(
    gate_id="gate", dataset=gates.DATASET, sequence=1, parent=None, operation_id="none", role="governor",
    request=Init(gate_id="gate", dataset=gates.DATASET, policy=named("policy a")), request_digest="",
    attestations=(), effects=Effects(), body="", recorded_at=gates.NOW,
)  # fmt: skip


def subject(world: World, request: Request) -> str | None:
    """The root that a request is about, as whoever gathers evidence finds it."""
    root: str | None = getattr(request, "root", None)
    if isinstance(request, StartRun):
        alias = world.body.aliases.get(request.alias)
        return None if alias is None else alias.root
    run = world.body.runs.get(getattr(request, "run", ""))
    return run.root if run is not None else root


def gathered(world: World, request: Request) -> Known:
    """What a client finds out for a request in this state."""
    root = subject(world, request)
    verifier = f"verifier-{world.policy}"
    chains = tuple(chain for key, chain in world.chains.items() if key[:2] == (root, verifier))
    approval = None if root is None else world.approvals.get(root)
    evidence = Evidence(
        signers=frozenset(),
        root=root,
        reports=tuple(report for chain in chains for report in chain.reports),
        approvals=() if approval is None else (approval,),
        policy=_asked_policy(request),
        log=_facts(request) if isinstance(request, AdvanceFence | StageFence) else None,
        rest=_rest(request) if isinstance(request, AdvanceFence) else None,
        run_recorded=getattr(request, "run", None) in world.recorded,
        cleared=world.body.retention.boundary,
    )
    return Known(chains=chains, approval=approval, evidence=evidence)


def _asked_policy(request: Request) -> Policy | None:
    if not isinstance(request, SetPolicy):
        return None
    return policy_of("b" if request.policy == named("policy b") else "a")


def _facts(request: AdvanceFence | StageFence) -> LogFacts:
    return LogFacts(previous=request.previous, log=request.log, first=request.first, last=request.last)


def _rest(request: AdvanceFence) -> LogFacts | None:
    kept = request.keep
    if kept is None or not follows(kept.log.digest, request.log.digest):
        return None
    return LogFacts(previous=request.log, log=kept.log, first=request.last + 1, last=kept.watermark)


def judged(world: World, request: Request, known: Known | None) -> Accept | Refuse:
    """What the register would decide in this state, for a client that has gathered so much."""
    judge = Judge(
        request,
        lambda _: gathered(world, request).evidence,
        ids("admin"),
        evidence=None if known is None else known.evidence,
    )
    return judge.verdict(view_of(world))


def landed(world: World, request: Request, accept: Accept) -> World:
    """The world after the swap."""
    after = replace(world, body=accept.body)
    if isinstance(request, StartRun):
        return replace(after, started=tuple(sorted((*world.started, request.run))))
    if isinstance(request, SetPolicy):
        return replace(after, policy="b" if world.policy == "a" else "a", spent=_one_more(world, 1))
    if isinstance(request, Revoke):
        return replace(after, spent=_one_more(world, 0))
    if isinstance(request, Retire):
        return replace(after, spent=_one_more(world, 2))
    return after


def _one_more(world: World, at: int) -> tuple[int, int, int]:
    first, second, third = (spent + (number == at) for number, spent in enumerate(world.spent))
    return first, second, third


def attestations(world: World) -> Iterator[tuple[str, World]]:
    """Verifications, re-checks and approvals that say anything new, at the fences or at what is staged."""
    verifier = f"verifier-{world.policy}"
    for name, root in enumerate(sorted(world.body.candidates)):
        since = _since(world.body, root)
        chains = [chain for key, chain in world.chains.items() if key[:2] == (root, verifier)]
        for to in {world.fences, world.ahead}:
            if not any(chain.end == to and chain.sequence >= since for chain in chains):
                yield f"verify r{name}", _reported(world, root, verifier, None, to)
            for before in chains:
                if before.end != to and _is_before(before.end, to):
                    yield f"recheck r{name}", _reported(world, root, verifier, before, to)
        given = world.approvals.get(root)
        if given is None or given.approval.gate_sequence < since:
            yield f"approve r{name}", replace(world, approvals={**world.approvals, root: _yes(world.body, root)})


def _is_before(one: Position, other: Position) -> bool:
    """Whether a delta can lead from one to the other."""
    return all(follows(to[1], at[1]) for at, to in zip(one, other, strict=True))


def _since(body: GateBody, root: str) -> int:
    candidate = body.candidates[root]
    return candidate.sequence if candidate.state == "INVALID" else 0


def _reported(world: World, root: str, verifier: str, before: Chain | None, to: Position) -> World:
    ranges = [_range(start, end) for start, end in zip(before.end if before else _BEGINNING, to, strict=True)]
    both = gates.Ranges(tombstones=ranges[0], benchmarks=ranges[1])
    report = gates.a_report(world.body, root, ranges=both, kind="delta" if before else "full")
    # Two chains that lead to one place are one to the rule, so their envelopes may share a name.
    seen = SeenReport(envelope=gates.a_root(f"{report.kind} {root} {to}"), key_ids=ids(verifier), report=report)
    chain = Chain(
        reports=(seen,) if before is None else (*before.reports, seen),
        end=to,
        sequence=world.body.sequence if before is None else before.sequence,
    )
    chains = dict(world.chains)
    old = chains.get((root, verifier, True))
    if old is not None and old.end == world.fences:
        chains[(root, verifier, False)] = chains.pop((root, verifier, True))
    chains[(root, verifier, to != world.fences)] = chain
    return replace(world, chains=chains)


_BEGINNING: Position = ((0, None), (0, None))


def _range(start: Place, end: Place) -> LogRange:
    """The entries behind one place up to another, by the chunks at both ends."""
    if start == end:
        return LogRange(first=0, last=0, log=None)
    return LogRange(first=start[0] + 1, last=end[0], log=end[1], after=start[1])


def _yes(body: GateBody, root: str) -> SeenApproval:
    return SeenApproval(
        envelope=gates.a_root(f"yes {root}"), key_ids=ids("approver"), approval=gates.an_approval(body, root)
    )

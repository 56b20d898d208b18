"""Every step that a ``World`` can take within bounds, and when two worlds are the same one."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from msgspec.structs import replace as changed

from shardrel.gate.facts import Accept
from shardrel.records.gate import FenceKind, GateBody
from shardrel.records.transition import (
    Admit,
    AdmitCheckpoint,
    AdvanceFence,
    Assume,
    BeginPublication,
    EndPublication,
    EndRun,
    EndSweep,
    RenewRun,
    Request,
    Retire,
    Revoke,
    Rollback,
    SetPolicy,
    StageFence,
    StartRun,
)
from tests.support import gates
from tests.support.gate_world import Known, Slot, World, attestations, gathered, judged, landed, log_behind, named

NEVER = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What is explored.

    Attributes:
        known: How many of the roots are staged at the beginning; the others are published.
        generations: Most moves of each alias.
        tombstones, benchmarks: Highest watermarks.
        revocations, policies: Most of them.
        heads: Checkpoints of a run.
        retirements: Most collections.
        staging: Whether entries are staged before a fence takes them, of two kinds, so that they can be replaced.
        slots: Clients whose swap or answer is still to come; everybody else acts in one step.
        asks_history: False for a client that asks again without looking for its own success.
    """

    roots: int = 2
    known: int = 2
    aliases: int = 1
    runs: int = 1
    generations: int = 2
    tombstones: int = 1
    benchmarks: int = 1
    revocations: int = 1
    policies: int = 1
    heads: int = 1
    retirements: int = 0
    staging: bool = False
    slots: int = 1
    asks_history: bool = True


def roots_of(bounds: Bounds) -> tuple[str, ...]:
    """The roots, by name."""
    return tuple(sorted(gates.a_root(f"r{number}") for number in range(bounds.roots)))


def steps(world: World, bounds: Bounds) -> Iterator[tuple[str, World]]:
    """Each step from here, with its name."""
    yield from attestations(world)
    for name, request in requests(world, bounds):
        verdict = judged(world, request, None)
        if isinstance(verdict, Accept):
            yield name, landed(prepared(world, request), request, verdict)
            yield from _begun(world, name, request)
    for run in sorted(world.body.runs.keys() - world.recorded):
        yield f"record {run}", replace(world, recorded=world.recorded | {run})
    for at, slot in enumerate(world.slots):
        if slot is not None:
            yield from _continued(world, bounds, at, slot)


def prepared(world: World, request: Request) -> World:
    """Whoever ends a run makes its record first, where it is absent."""
    return replace(world, recorded=world.recorded | {request.run}) if isinstance(request, EndRun) else world


def _begun(world: World, name: str, request: Request) -> Iterator[tuple[str, World]]:
    """A client reads the state, gathers and decides; its swap is still to come."""
    if None in world.slots:
        slot = Slot(request=request, known=gathered(world, request))
        yield f"begin {name}", _with_slot(prepared(world, request), world.slots.index(None), slot)


def _continued(world: World, bounds: Bounds, at: int, slot: Slot) -> Iterator[tuple[str, World]]:
    if slot.effects:
        yield "answer", _with_slot(world, at, None)
        if bounds.asks_history:
            return
    verdict = judged(world, slot.request, slot.known)
    what = f"{type(slot.request).__name__} in slot {at}"
    if isinstance(verdict, Accept):
        after = landed(world, slot.request, verdict)
        yield f"swap {what}", _with_slot(after, at, replace(slot, effects=slot.effects + 1))
        yield f"restart {what}", _with_slot(world, at, replace(slot, known=gathered(world, slot.request)))
    else:
        yield f"refusal {what}", _with_slot(world, at, None)


def _with_slot(world: World, at: int, slot: Slot | None) -> World:
    """Clients are alike, so the slots have an order of their own."""
    slots = list(world.slots)
    slots[at] = slot
    return replace(world, slots=tuple(slots))


def requests(world: World, bounds: Bounds) -> Iterator[tuple[str, Request]]:
    """Everything that anybody could ask for, also what must be refused."""
    yield from _publications(world, bounds)
    for alias in ("prod", "dev")[: bounds.aliases]:
        yield from _moves(world, bounds, alias)
    for kind, most in (("tombstones", bounds.tombstones), ("benchmarks", bounds.benchmarks)):
        yield from _advances(world.body, bounds, kind, most)  # type: ignore[arg-type]
        if bounds.staging:
            yield from _stages(world.body, kind, most)  # type: ignore[arg-type]
    for number, root in enumerate(roots_of(bounds)):
        if world.spent[0] < bounds.revocations:
            yield f"revoke r{number}", Revoke(root=root, reason="tests", report=None)
    for run in ("u1", "u2")[: bounds.runs]:
        yield from _runs(world, bounds, run)
    if world.spent[2] < bounds.retirements:
        yield from _retirements(world, bounds)
    if bounds.retirements:
        boundary = world.body.retention.boundary
        yield from (("end-sweep", EndSweep(boundary=at)) for at in (boundary, boundary + 1) if at)
    if world.spent[1] < bounds.policies:
        new = named("policy b" if world.policy == "a" else "policy a")
        for old in (world.body.policy, new):
            yield "set-policy", SetPolicy(policy=new, previous=old)


def _publications(world: World, bounds: Bounds) -> Iterator[tuple[str, Request]]:
    if bounds.known < bounds.roots:
        yield "begin-publication", BeginPublication(publication="p", snapshot=gates.SNAPSHOT)
        pin = world.body.publications.get("p")
        for number, root in enumerate((*roots_of(bounds)[bounds.known :], None)):
            yield f"end-publication {number}", EndPublication(publication="p", root=root)
            if pin is not None and bounds.retirements:
                old = EndPublication(publication="p", root=root, pin=max(pin.sequence - 1, 1))
                yield f"end-publication-of-another-pin {number}", old


def _retirements(world: World, bounds: Bounds) -> Iterator[tuple[str, Request]]:
    """Plans of this state and of the one before, also for what is in use, is not known, or is not open."""
    sequence = world.body.sequence
    for roots in ((), *((root,) for root in roots_of(bounds))):
        for publications in ((), ("p",)) if bounds.known < bounds.roots else ((),):
            for objects in (0, 1):
                for after in (sequence, sequence - 1):
                    request = Retire(
                        after=max(after, 1), plan=named("plan"), objects=objects, roots=roots,
                        publications=publications, runs=(), owner="gc",
                    )  # fmt: skip
                    yield f"retire {len(roots)} {len(publications)} {objects}", request


def _moves(world: World, bounds: Bounds, alias: str) -> Iterator[tuple[str, Request]]:
    now = world.body.aliases.get(alias)
    generation = 0 if now is None else now.generation
    if generation >= bounds.generations:
        return
    for number, root in enumerate(roots_of(bounds)):
        for assumed in {None, generation, max(generation - 1, 0), generation + 1}:
            assume = Assume(generation=assumed)
            yield f"admit {alias} r{number} {assumed}", Admit(alias=alias, root=root, assume=assume)
        yield f"rollback {alias} r{number}", Rollback(alias=alias, root=root)
        both = Assume(tombstone_watermark=world.fences[0][0], benchmark_fence=world.fences[1][0])
        yield f"admit-assuming {alias} r{number}", Admit(alias=alias, root=root, assume=both)


def _advances(body: GateBody, bounds: Bounds, kind: FenceKind, most: int) -> Iterator[tuple[str, Request]]:
    fence = body.tombstones if kind == "tombstones" else body.benchmarks
    staged = None if fence.staged is None else fence.staged.log
    for first in range(max(fence.watermark, 1), fence.watermark + 3):
        for last in range(max(first - 1, 1), min(first + 2, most) + 1):
            for entries in "xy" if bounds.staging else "x":
                request = AdvanceFence(
                    fence=kind, first=first, last=last, previous=fence.log, log=log_behind(fence.log, kind, last, entries),
                    staged=staged,
                )  # fmt: skip
                yield f"advance {kind} {first}-{last}{entries}", request
                if fence.staged is not None:
                    yield f"advance-keeping {kind} {first}-{last}{entries}", changed(request, keep=fence.staged)
                    yield f"advance-blindly {kind} {first}-{last}{entries}", changed(request, staged=None)


def _stages(body: GateBody, kind: FenceKind, most: int) -> Iterator[tuple[str, Request]]:
    fence = body.tombstones if kind == "tombstones" else body.benchmarks
    starts = {fence.watermark: fence.log}
    if fence.staged is not None:
        starts[fence.staged.watermark] = fence.staged.log
    for start, previous in starts.items():
        for last in range(start + 1, min(start + 2, most) + 1):
            for entries in "xy":
                log = log_behind(previous, kind, last, entries)
                yield (
                    f"stage {kind} {start + 1}-{last}{entries}",
                    StageFence(
                        fence=kind, watermark=fence.watermark, first=start + 1, last=last, previous=previous, log=log,
                        staged=None if fence.staged is None else fence.staged.log,
                    ),
                )  # fmt: skip


def _runs(world: World, bounds: Bounds, run: str) -> Iterator[tuple[str, Request]]:
    for alias in ("prod", "dev")[: bounds.aliases]:
        yield f"start {run} {alias}", StartRun(run=run, alias=alias)
    yield f"renew {run}", RenewRun(run=run)
    yield f"end {run}", EndRun(run=run, outcome="finished")
    state = world.body.runs.get(run)
    head = -1 if state is None or state.head is None else state.head.generation
    commit = None if state is None or state.head is None else state.head.commit
    if head + 1 >= bounds.heads:
        return
    for generation in (head + 1, head + 2):
        for permit in {NEVER} if state is None or state.permit is None else {NEVER, state.permit}:
            held = "never" if permit == NEVER else "held"
            yield (
                f"checkpoint {run} {generation} {held}",
                AdmitCheckpoint(
                    run=run, generation=generation, commit=gates.a_root(f"{run} {generation}"), parent=commit,
                    step=generation, permit=permit,
                ),
            )  # fmt: skip


def key_of(world: World) -> Hashable:
    """What tells two worlds apart: sequences and the names of permits do not, only how they compare."""
    body, number = world.body, {root: at for at, root in enumerate(sorted(_all_roots(world)))}
    open_permits = sorted(
        (p.kind, p.subject, number[p.root], p.generation, p.tombstone_watermark, p.benchmark_fence)
        for p in body.permits.values()
    )
    runs = sorted(
        (name, run.alias, number[run.root], run.generation, run.permit is not None, run.head and run.head.generation)
        for name, run in body.runs.items()
    )
    return (
        world.fences,
        world.ahead,
        world.policy,
        world.spent,
        sorted((number[root], found.state, found.admitted is None) for root, found in body.candidates.items()),
        sorted((name, alias.generation, number[alias.root]) for name, alias in body.aliases.items()),
        open_permits,
        runs,
        sorted((name, pin.sequence > body.retention.boundary) for name, pin in body.publications.items()),
        body.retention.sweep is not None,
        sorted(number[root] for root, found in body.candidates.items() if found.sequence == body.retention.boundary),
        sorted((number[root], by, chain.end, _fresh(body, root, chain.sequence)) for (root, by, _), chain in world.chains.items()),
        sorted((number[root], _fresh(body, root, yes.approval.gate_sequence)) for root, yes in world.approvals.items()),
        sorted(world.recorded),
        world.started,
        sorted(repr(_slot_key(body, slot)) for slot in world.slots if slot is not None),
        world.slots.count(None),
    )  # fmt: skip


def _all_roots(world: World) -> set[str]:
    return set(world.body.candidates) | {root for root, *_ in world.chains} | set(world.approvals)


def _fresh(body: GateBody, root: str, sequence: int) -> bool:
    """Whether something said at a sequence still counts after the root's invalidation, if it is INVALID."""
    candidate = body.candidates.get(root)
    return candidate is None or candidate.state != "INVALID" or sequence >= candidate.sequence


def _slot_key(body: GateBody, slot: Slot) -> Hashable:
    request = slot.request
    bare: Hashable = request
    permit = None
    if isinstance(request, AdmitCheckpoint):
        run = body.runs.get(request.run)
        permit = "held" if run is not None and run.permit == request.permit else "stale"
        bare = _without_permit(request)
    if isinstance(request, Retire | EndSweep | EndPublication):
        bare = _without_sequences(body, request)
    looked = slot.known.evidence.cleared == body.retention.boundary
    return bare, permit, slot.effects, _known_key(body, slot.known), looked


def _without_sequences(body: GateBody, request: Retire | EndSweep | EndPublication) -> Hashable:
    """What is named by a sequence matters by whether it is that of now."""
    if isinstance(request, Retire):
        return changed(request, after=1), request.after == body.sequence
    if isinstance(request, EndSweep):
        return "end-sweep", request.boundary == body.retention.boundary
    pin = body.publications.get(request.publication)
    return changed(request, pin=None), request.pin is None or (pin is not None and request.pin == pin.sequence)


def _without_permit(request: AdmitCheckpoint) -> AdmitCheckpoint:
    return AdmitCheckpoint(
        run=request.run, generation=request.generation, commit=request.commit, parent=request.parent,
        step=request.step, permit="", assume=request.assume,
    )  # fmt: skip


def _known_key(body: GateBody, known: Known) -> Hashable:
    root = known.evidence.root
    if root is None or root not in body.candidates:
        return known.evidence.run_recorded
    return (
        root,
        known.evidence.run_recorded,
        [(chain.end, chain.reports[0].key_ids, _fresh(body, root, chain.sequence)) for chain in known.chains],
        known.approval is not None and _fresh(body, root, known.approval.approval.gate_sequence),
        known.approval is not None,
    )

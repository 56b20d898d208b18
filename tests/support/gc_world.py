"""Publishers, a job and collections over a few objects, as one small value: for an exhaustive exploration of gc.

The gate is the product's own rule, and what is retained, what waits and what goes is its own pure code; the store is a
set of names, in which a deletion takes whatever has the name (a store without versions, the worst there is). Writers
write one object at a time, die and go on, and may be slow enough for whole collections to pass them by.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from msgspec.structs import replace as changed

from shardrel.gate.condemned import seen_at
from shardrel.gate.facts import Accept, Evidence
from shardrel.gate.past import AdmittedCommit, Past
from shardrel.gate.retention import Kept, Wanted, keep
from shardrel.gate.transitions import decide
from shardrel.gate.unnamed import Found, Loose, sort_out
from shardrel.records.gate import Alias, Candidate, Fence, GateBody, Permit, Run
from shardrel.records.sweep import Unnamed
from shardrel.records.transition import AdmitCheckpoint, BeginPublication, EndPublication, EndSweep, Request, Retire
from tests.support import gates
from tests.support.explorer import ViolationError
from tests.support.gate_world import ids, named, policy_of

RUN, PERMIT = "job", "the permit"
CURRENT = gates.a_root("current")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What is explored.

    Attributes:
        closures: What each publisher's root leads to, beside the root itself.
        tensors: What an attempt at a checkpoint may write; two attempts of one run, of which one may be a stranger.
        publications, checkpoints, collections: Most of each; publications of each publisher.
        looks, waits: False for a writer that does not look, and for a collection that waits for nobody.
        counts_open_sweep: False for an attempt that takes an open sweep for a finished one.
        exact: False for a plan that is taken whatever happened since it was made.
    """

    closures: tuple[frozenset[str], ...] = (frozenset("a"),)
    tensors: tuple[str, ...] = ()
    attempts: int = 0
    publications: int = 2
    checkpoints: int = 0
    collections: int = 2
    leftovers: frozenset[str] = frozenset()
    looks: bool = True
    waits: bool = True
    counts_open_sweep: bool = True
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Writer:
    """A publisher, or a process of the job, in the middle of what it does.

    Attributes:
        since: Its pin's sequence, or the boundary that its attempt read; None while it is at nothing.
        wants: What it has to write.
        wrote: What is written.
        tries: How often it has begun.
    """

    since: int | None = None
    wants: frozenset[str] = frozenset()
    wrote: frozenset[str] = frozenset()
    tries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A commit record that is installed.

    Attributes:
        lost: Admitted though something of it was condemned: restores pass over it.
    """

    objects: frozenset[str]
    since: int
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A collection that has read everything; it retires next, or never."""

    after: int
    found: Found
    kept: Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class GcWorld:
    """One state."""

    body: GateBody
    objects: frozenset[str]
    publishers: tuple[Writer, ...]
    attempts: tuple[Writer, ...]
    admitted: tuple[Checkpoint, ...] = ()
    installed: Checkpoint | None = None
    progress: int | None = None
    plans: tuple[tuple[int, frozenset[str]], ...] = ()
    unnamed: tuple[Unnamed, ...] = ()
    left: frozenset[str] = frozenset()
    plan: Plan | None = None
    collections: int = 0


def root_of(number: int) -> str:
    """The root of a publisher."""
    return gates.a_root(f"root {number}")


def beginning(bounds: Bounds) -> GcWorld:
    """A gate with a release in use and a run on it, and what dead writers left."""
    fence = Fence(watermark=0, log=None)
    body = GateBody(
        gate_id="gate", dataset=gates.DATASET, sequence=1, policy=named("policy a"), tombstones=fence, benchmarks=fence,
        aliases={"prod": Alias(generation=1, root=CURRENT, sequence=1)},
        candidates={CURRENT: Candidate(state="ADMITTED", sequence=1, reason=None, admitted=1)},
        permits={}, runs={}, publications={},
    )  # fmt: skip
    if bounds.attempts:
        permit = Permit(
            kind="run", subject=RUN, root=CURRENT, generation=1, tombstone_watermark=0, benchmark_fence=0, sequence=1
        )
        run = Run(alias="prod", root=CURRENT, generation=1, permit=PERMIT, closed=None, head=None, sequence=1)
        body = changed(body, permits={PERMIT: permit}, runs={RUN: run})
    return GcWorld(
        body=body,
        objects=frozenset({CURRENT}) | bounds.leftovers,
        publishers=(Writer(),) * len(bounds.closures),
        attempts=(Writer(),) * bounds.attempts,
    )


def decided(world: GcWorld, request: Request, cleared: int | None = None) -> GateBody | None:
    """The next body by the product's rule; None for a refusal."""
    evidence = Evidence(signers=ids("admin"), cleared=cleared)
    verdict = decide(world.body, request, evidence, policy_of("a"))
    return verdict.body if isinstance(verdict, Accept) else None


def steps(world: GcWorld, bounds: Bounds) -> Iterator[tuple[str, GcWorld]]:
    """Each step from here, with its name."""
    for at in range(len(world.publishers)):
        yield from _publisher(world, bounds, at)
    for at in range(len(world.attempts)):
        yield from _attempt(world, bounds, at)
    if world.installed is not None:
        yield from _admission(world, bounds, world.installed)
    yield from _collection(world, bounds)


def closure(world: GcWorld, bounds: Bounds, root: str) -> frozenset[str]:
    """What a root leads to."""
    for number, names in enumerate(bounds.closures):
        if root == root_of(number):
            return names | {root}
    return frozenset({root})


def _publisher(world: GcWorld, bounds: Bounds, at: int) -> Iterator[tuple[str, GcWorld]]:
    writer, name = world.publishers[at], f"p{at}"
    if writer.since is None:
        body = decided(world, BeginPublication(publication=name, snapshot=gates.SNAPSHOT))
        if writer.tries < bounds.publications and body is not None and root_of(at) not in world.body.candidates:
            wants = bounds.closures[at] | {root_of(at)}
            begun = Writer(since=body.sequence, wants=wants, tries=writer.tries + 1)
            yield f"begin {name}", _with(replace(world, body=body), at, begun)
        return
    yield from _writes(world, writer, lambda moved, now: _with(moved, at, now))
    if writer.wrote != writer.wants:
        return
    pin = world.body.publications.get(name)
    since = pin.sequence if pin is not None else 0
    request = EndPublication(publication=name, root=root_of(at), pin=writer.since)
    body = decided(world, request, _cleared(world, bounds, since, writer.wants))
    idle = Writer(tries=writer.tries)
    if body is not None:
        yield f"end {name}", _with(replace(world, body=body), at, idle)
    else:
        dropped = decided(world, changed(request, root=None))
        yield f"refused {name}", _with(world if dropped is None else replace(world, body=dropped), at, idle)


def _writes(world: GcWorld, writer: Writer, put: Any) -> Iterator[tuple[str, GcWorld]]:
    """The next object, in a fixed order: it is created, or found there."""
    for name in sorted(writer.wants - writer.wrote)[:1]:
        moved = replace(world, objects=world.objects | {name})
        yield "write", put(moved, replace(writer, wrote=writer.wrote | {name}))


def _with(world: GcWorld, at: int, writer: Writer) -> GcWorld:
    publishers = list(world.publishers)
    publishers[at] = writer
    return replace(world, publishers=tuple(publishers))


def _with_attempt(world: GcWorld, at: int, writer: Writer) -> GcWorld:
    attempts = list(world.attempts)
    attempts[at] = writer
    return replace(world, attempts=tuple(attempts))


def _attempt(world: GcWorld, bounds: Bounds, at: int) -> Iterator[tuple[str, GcWorld]]:
    writer = world.attempts[at]
    if writer.since is None:
        if writer.tries < bounds.checkpoints:
            retention = world.body.retention
            since = seen_at(retention) if bounds.counts_open_sweep else retention.boundary
            for tensor in bounds.tensors:
                wants = frozenset({tensor, f"manifest {at} {writer.tries}"})
                begun = Writer(since=since, wants=wants, tries=writer.tries + 1)
                yield f"attempt {at} {tensor}", _with_attempt(world, at, begun)
        return
    yield from _writes(world, writer, lambda moved, now: _with_attempt(moved, at, now))
    if writer.wrote != writer.wants:
        return
    idle = _with_attempt(world, at, Writer(tries=writer.tries))
    if world.installed is not None or _cleared(world, bounds, writer.since, writer.wants) is None:
        yield f"given-up {at}", idle
        return
    yield f"install {at}", replace(idle, installed=Checkpoint(objects=writer.wants, since=writer.since))


def _admission(world: GcWorld, bounds: Bounds, record: Checkpoint) -> Iterator[tuple[str, GcWorld]]:
    """By the job itself, or by whoever helps it."""
    head = world.body.runs[RUN].head
    generation = 0 if head is None else head.generation + 1
    request = AdmitCheckpoint(
        run=RUN, generation=generation, commit=gates.a_root(f"commit {generation}"),
        parent=None if head is None else head.commit, step=generation, permit=PERMIT,
    )  # fmt: skip
    found = _cleared(world, bounds, record.since, record.objects)
    body = decided(world, request, found)
    lost = body is None
    if body is None:
        body = decided(world, request, world.body.retention.boundary)
    assert body is not None
    yield (
        "lost" if lost else "admit",
        replace(
            world, body=body, installed=None, admitted=(*world.admitted, replace(record, lost=lost)),
            progress=body.sequence,
        ),
    )  # fmt: skip


def _cleared(world: GcWorld, bounds: Bounds, since: int, names: frozenset[str]) -> int | None:
    boundary = world.body.retention.boundary
    hit = any(at > since and condemned & names for at, condemned in world.plans)
    return None if hit and bounds.looks else boundary


def _collection(world: GcWorld, bounds: Bounds) -> Iterator[tuple[str, GcWorld]]:
    retention = world.body.retention
    if retention.sweep is not None:
        for name in sorted(world.left)[:1]:
            yield "delete", replace(world, left=world.left - {name}, objects=world.objects - {name})
        if not world.left:
            ended = decided(world, EndSweep(boundary=retention.boundary))
            assert ended is not None
            yield "end-sweep", replace(world, body=ended)
        return
    if world.plan is not None:
        yield from _retirement(world, bounds, world.plan)
    elif world.collections < bounds.collections:
        staged = [root for root, one in world.body.candidates.items() if one.state == "STAGED"]
        for given_up in {frozenset[str](), frozenset(staged), frozenset(world.body.publications)}:
            plan = _planned(world, bounds, given_up)
            yield "plan", replace(world, plan=plan, collections=world.collections + 1)


def _planned(world: GcWorld, bounds: Bounds, given_up: frozenset[str]) -> Plan:
    """What ``survey.Survey`` finds, of a listing and of records that are all there."""
    body = world.body
    commits = [AdmittedCommit(generation=at, commit=f"commit {at}") for at in range(len(world.admitted))]
    past = Past(
        moves=(), ended={}, admitted={RUN: commits}, progress={} if world.progress is None else {RUN: world.progress}
    )
    kept = keep(body, past, Wanted(generations=0, abandon=given_up))
    if not bounds.waits:
        kept = replace(kept, open_publications={}, open_runs={})
    live = {name for root in kept.roots for name in closure(world, bounds, root)}
    live |= {name for commit in kept.commits for name in world.admitted[commit.generation].objects}
    live |= frozenset() if world.installed is None else world.installed.objects
    gone = {root: closure(world, bounds, root) for root in kept.retired}
    known = {one.digest: one for one in world.unnamed}
    loose = []
    for name in sorted(world.objects - live):
        roots, old = frozenset(root for root in gone if name in gone[root]), known.get(name)
        release = bool(roots) or (old is not None and old.release)
        loose.append(Loose(name, "", False, roots, release, None if old is None else old.since))
    return Plan(after=body.sequence, found=sort_out(body, kept, loose, frozenset()), kept=kept)


def _retirement(world: GcWorld, bounds: Bounds, plan: Plan) -> Iterator[tuple[str, GcWorld]]:
    condemned = frozenset(one.digest for one in plan.found.objects)
    request = Retire(
        after=plan.after if bounds.exact else world.body.sequence, plan=named("plan"), objects=len(condemned),
        roots=plan.found.roots, publications=plan.kept.publications, runs=(), owner="gc",
    )  # fmt: skip
    body = decided(world, request)
    dropped = replace(world, plan=None)
    if body is None:
        yield "stale", dropped
        return
    busy = "busy" if body.publications or any(one.since is not None for one in world.attempts) else "quiet"
    yield (
        f"retire-{busy}" if condemned else "note",
        replace(
            dropped, body=body, left=condemned,
            plans=(*world.plans, (body.sequence, condemned)) if condemned else world.plans,
            unnamed=plan.found.unnamed,
        ),
    )  # fmt: skip


def check(bounds: Bounds, world: GcWorld) -> None:
    """Whatever the gate holds on to is there, and is not about to be deleted."""
    for root in world.body.candidates:
        names = closure(world, bounds, root)
        if not names <= world.objects:
            raise ViolationError("a root that the gate holds on to has lost an object")
        if names & world.left:
            raise ViolationError("an object of a root that the gate holds on to is condemned")
    for one in world.admitted:
        if not one.lost and (not one.objects <= world.objects or one.objects & world.left):
            raise ViolationError("an admitted checkpoint has lost an object")


def check_step(before: GcWorld, name: str, after: GcWorld) -> None:
    """The boundary never goes back, and nothing begins below an open sweep."""
    if after.body.retention.boundary < before.body.retention.boundary:
        raise ViolationError("the boundary went back")
    if name.startswith("begin ") and before.body.retention.sweep is not None:
        raise ViolationError("a publication began while a sweep was open")
    if name == "retire-busy" and before.body.retention.sweep is not None:
        raise ViolationError("two sweeps are open")


def key_of(world: GcWorld) -> Hashable:
    """What tells two worlds apart: sequences do not, only how they compare."""
    body = world.body
    pins = sorted((name, pin.sequence) for name, pin in body.publications.items())
    numbers = {at for _, at in pins} | {at for at, _ in world.plans} | {one.since for one in world.unnamed}
    numbers |= {one.since for one in (*world.publishers, *world.attempts) if one.since is not None}
    numbers |= {world.progress or 1, body.retention.boundary}
    if world.installed is not None:
        numbers.add(world.installed.since)
    rank = {number: at for at, number in enumerate(sorted(numbers))}

    def writer(one: Writer) -> Hashable:
        return None if one.since is None else rank[one.since], sorted(one.wants), sorted(one.wrote), one.tries

    plan = world.plan
    return (
        sorted((root, one.state) for root, one in body.candidates.items()),
        [(name, rank[at]) for name, at in pins],
        sorted(world.objects),
        [writer(one) for one in world.publishers],
        [writer(one) for one in world.attempts],
        [(sorted(one.objects), one.lost) for one in world.admitted],
        world.installed and (sorted(world.installed.objects), rank[world.installed.since]),
        rank[world.progress or 1],
        [(rank[at], sorted(condemned)) for at, condemned in world.plans],
        [(one.digest, rank[one.since], one.release) for one in world.unnamed],
        sorted(world.left),
        body.retention.sweep is not None,
        rank[body.retention.boundary],
        plan and (plan.after == body.sequence, _plan_key(plan, rank)),
        world.collections,
    )


def _plan_key(plan: Plan, rank: dict[int, int]) -> Hashable:
    new = len(rank)
    return (
        [one.digest for one in plan.found.objects],
        [(one.digest, rank.get(one.since, new), one.release) for one in plan.found.unnamed],
        plan.found.roots,
        plan.kept.publications,
    )

"""gc: let go of what nothing pins, durably, and only then delete it. Source: schemas/SPEC.md#retention."""

from dataclasses import dataclass

from shardrel.canonical import json
from shardrel.digest import Domain, domain_hash, lp
from shardrel.errors import ConflictError, ErrorCode, InternalError, NotFoundError, RefusedError, UnavailableError
from shardrel.gate.call import Call
from shardrel.gate.deletion import Deleted, delete_all
from shardrel.gate.eligibility import has_tombstone_hit
from shardrel.gate.evidence import gather
from shardrel.gate.facts import Evidence, sweeping
from shardrel.gate.history import Link
from shardrel.gate.past import Past, past_of
from shardrel.gate.pending import operation
from shardrel.gate.refusals import as_error
from shardrel.gate.register import submit
from shardrel.gate.retention import Kept, Wanted, keep
from shardrel.gate.survey import Survey
from shardrel.gate.unnamed import Found
from shardrel.gate.view import GateView, read_gate
from shardrel.records.descriptor import Descriptor
from shardrel.records.sweep import Condemned, SweepPlan
from shardrel.records.transition import EndSweep, Request, Retire
from shardrel.store.objects import get_record, put_record, unversioned
from shardrel.store.port import Store

_ATTEMPTS = 64
_NOTHING = Evidence(signers=frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What a collection did, or would do.

    Attributes:
        objects: Deleted ones; in a dry run those that would be.
        locked: Those that the store keeps.
        kept: What stays, and why.
        retired: Roots that leave the gate's state; of those that nothing pins, one stays while its objects wait.
        snapshots: Declared and not published; the next collection takes those that still are not.
        waiting: What holds back objects that nothing leads to.
        held: Roots that nothing pins, and whose objects stay while something is waited for.
        boundary: Sequence of the transition that condemned last; 0 before the first.
        resumed: It finished what an earlier call began.
    """

    objects: tuple[Condemned, ...]
    locked: tuple[Condemned, ...]
    kept: Kept
    retired: tuple[str, ...]
    snapshots: tuple[str, ...]
    waiting: tuple[str, ...]
    held: tuple[str, ...]
    boundary: int
    resumed: bool


def collect(
    store: Store, dataset: str, call: Call, *, generations: int | None = None, abandon: frozenset[str] = frozenset()
) -> Collected:
    """Delete the objects that nothing retained leads to.

    1. List the objects. 2. Read the gate and everything that is retained. 3. Write the plan, and move the boundary by
    a transition that any other transition since step 2 refuses; then back to 2. 4. Delete exact versions and read
    back. 5. End the sweep. Killed anywhere and called again with the same pending folder or operation id, it goes on.

    Args:
        store: Where the gate is.
        dataset: Whose gate.
        call: Who asks; a governor signs.
        generations: Of each alias that stay beside the current one; None takes the policy's window.
        abandon: Publications, STAGED roots and ended runs to give up, and the owner of a sweep that is dead.

    Raises:
        RefusedError: ``retention.sweep-open`` while another call deletes; ``retention.pinned``.
        NotFoundError: ``gate.no-such-publication`` for something to abandon that is not there; and as ``Survey.find``:
            then nothing was deleted.
        ShardrelError: As ``register.submit``.

    Effects: creates the plan, then as ``register.submit``, then deletes, then as ``register.submit``.
    """
    with operation(call.pending, [store.url, dataset, "gc"], call.operation_id) as owner:
        view = read_gate(store, dataset)
        survey, sweep = Survey(store, dataset), view.body.retention.sweep
        earlier = _earlier(survey, view, owner)
        if earlier is not None:
            return _resumed(survey, view, call, earlier, generations, abandon)
        done = Deleted()
        if sweep is not None:
            if sweep.owner not in abandon:
                raise as_error(sweeping(sweep))
            done = _sweep(store, dataset, view, sweep.owner, call)
            abandon -= {sweep.owner}
            view = read_gate(store, dataset)
        view, kept, found = _retire(survey, view, call, owner, generations, abandon)
        mine = view.body.retention.sweep
        if mine is not None and mine.owner == owner:
            done += _sweep(store, dataset, view, owner, call)
        return _collected(read_gate(store, dataset), kept, found, done, resumed=sweep is not None)


def preview(
    store: Store, dataset: str, *, generations: int | None = None, abandon: frozenset[str] = frozenset()
) -> Collected:
    """What ``collect`` would delete now.

    Raises:
        ShardrelError: As ``collect``.
    """
    view = read_gate(store, dataset)
    survey = Survey(store, dataset)
    kept = _kept(survey, view, generations, abandon)
    sweep = view.body.retention.sweep
    found = survey.find(view, kept) if sweep is None else Found(objects=_plan(store, view).objects)
    return _collected(view, kept, found, Deleted(gone=found.objects), resumed=False)


def _earlier(survey: Survey, view: GateView, owner: str) -> Link | None:
    """What an earlier try of this operation retired."""
    for link in reversed(survey.history(view)):
        if isinstance(link.transition.request, Retire) and link.transition.request.owner == owner:
            return link
    return None


def _resumed(
    survey: Survey,
    view: GateView,
    call: Call,
    earlier: Link,
    generations: int | None,
    abandon: frozenset[str],
) -> Collected:
    """Finish what an earlier try of this operation condemned, and nothing else."""
    store, dataset, request = survey.store, survey.dataset, earlier.transition.request
    if not isinstance(request, Retire):
        raise InternalError(ErrorCode.INTERNAL, "an earlier try retired")
    plan = get_record(store, request.plan, SweepPlan)
    done = Deleted(gone=plan.objects)
    sweep = view.body.retention.sweep
    if sweep is not None and sweep.owner == request.owner:
        done = _sweep(store, dataset, view, request.owner, call)
    view = read_gate(store, dataset)
    kept = keep(view.body, *_past_and_wanted(survey, view, generations, abandon))
    return _collected(view, kept, Found(roots=request.roots, unnamed=plan.unnamed), done, resumed=True)


def _retire(
    survey: Survey, view: GateView, call: Call, owner: str, generations: int | None, abandon: frozenset[str]
) -> tuple[GateView, Kept, Found]:
    """Move the boundary at a state that everything was read for; the plan is kept only where that state still holds."""
    for _ in range(_ATTEMPTS):
        kept = _kept(survey, view, generations, abandon)
        found = survey.find(view, kept)
        if not _anything(survey, view, kept, found):
            return view, kept, found
        request = _request(survey, view, kept, found, owner)
        try:
            _submit(survey.store, survey.dataset, request, owner, call)
        except ConflictError as err:
            if err.code != ErrorCode.GATE_ASSUMPTION:
                raise
            view = read_gate(survey.store, survey.dataset)
            continue
        return read_gate(survey.store, survey.dataset), kept, found
    raise UnavailableError(ErrorCode.STORE_CONTENTION, "too many others move this gate; run the same command again")


def _anything(survey: Survey, view: GateView, kept: Kept, found: Found) -> bool:
    """Whether the plan would change anything."""
    plan = survey.plan(view)
    before = set[str]() if plan is None else {one.digest for one in plan.unnamed}
    new = {one.digest for one in found.unnamed} - before
    return bool(found.objects or found.roots or kept.publications or kept.runs or new)


def _request(survey: Survey, view: GateView, kept: Kept, found: Found, owner: str) -> Retire:
    body = view.body
    plan = SweepPlan(
        dataset=body.dataset,
        gate_id=body.gate_id,
        after=body.sequence,
        previous=_condemning(survey, view),
        objects=found.objects,
        unnamed=found.unnamed,
    )
    return Retire(
        after=body.sequence,
        plan=unversioned(put_record(survey.store, plan)),
        objects=len(found.objects),
        roots=found.roots,
        publications=kept.publications,
        runs=kept.runs,
        owner=owner,
    )


def _condemning(survey: Survey, view: GateView) -> Descriptor | None:
    """The newest plan that condemned anything: readers of the new one need not look at those between."""
    plan = survey.plan(view)
    if plan is None:
        return None
    return view.body.retention.plan if plan.objects else plan.previous


def _kept(survey: Survey, view: GateView, generations: int | None, abandon: frozenset[str]) -> Kept:
    past, wanted = _past_and_wanted(survey, view, generations, abandon)
    kept = keep(view.body, past, wanted)
    _check_abandoned(view, past, abandon, kept)
    return kept


def _past_and_wanted(
    survey: Survey, view: GateView, generations: int | None, abandon: frozenset[str]
) -> tuple[Past, Wanted]:
    past = past_of(link.transition for link in survey.history(view))
    return past, Wanted(
        generations=view.policy.rollback_window if generations is None else generations,
        abandon=abandon,
        hits=_hits(survey.store, view, past),
    )


def _hits(store: Store, view: GateView, past: Past) -> frozenset[str]:
    """Of the roots that only a window or a checkpoint may pin, those with a tombstone hit."""
    body = view.body
    used = {alias.root for alias in body.aliases.values()} | {root for run in body.runs.values() for root in run.roots}
    old = {move.root for move in past.moves} | {root for ended in past.ended.values() for root in ended.roots}
    return frozenset(
        root
        for root in sorted((old - used) & body.candidates.keys())
        if has_tombstone_hit(body, root, gather(store, root, view.policy), view.policy)
    )


def _check_abandoned(view: GateView, past: Past, abandon: frozenset[str], kept: Kept) -> None:
    for name in sorted(abandon):
        if name in kept.roots or name in view.body.runs:
            pins = kept.roots.get(name, (f"run:{name}",))
            raise RefusedError(ErrorCode.RETENTION_PINNED, "it is in use and cannot be given up", pin=pins[0])
        known = view.body.publications.keys() | view.body.candidates.keys() | past.ended.keys()
        if name not in known:
            raise NotFoundError(
                ErrorCode.GATE_NO_PUBLICATION, "no publication, staged root or ended run has this name", name=name
            )


def _plan(store: Store, view: GateView) -> SweepPlan:
    plan = view.body.retention.plan
    if plan is None:
        raise InternalError(ErrorCode.INTERNAL, "a boundary has a plan")
    return get_record(store, plan, SweepPlan)


def _sweep(store: Store, dataset: str, view: GateView, owner: str, call: Call) -> Deleted:
    """Delete what the gate condemned, then say that it is done."""
    boundary = view.body.retention.boundary

    def still_ours() -> None:
        now = read_gate(store, dataset).body.retention
        if now.sweep is None or now.boundary != boundary:
            raise RefusedError(ErrorCode.RETENTION_SWEEP, "another call took these deletions over", owner=owner)

    done = delete_all(store, _plan(store, view).objects, still_ours)
    _submit(store, dataset, EndSweep(boundary=boundary), owner, call)
    return done


def _submit(store: Store, dataset: str, request: Request, owner: str, call: Call) -> None:
    """Submit one of the requests of a collection, under an id of its own that a resumed one makes again."""
    words = (b"gc", owner.encode(), json.encode(request))
    submit(
        store,
        dataset,
        request,
        operation_id=domain_hash(Domain.ID, *(lp(word) for word in words)).hex()[:32],
        signers=call.signers,
        gather=lambda _: _NOTHING,
        recorded_at=call.recorded_at,
    )


def _collected(view: GateView, kept: Kept, found: Found, done: Deleted, *, resumed: bool) -> Collected:
    return Collected(
        objects=done.gone,
        locked=done.locked,
        kept=kept,
        retired=found.roots,
        snapshots=found.snapshots,
        waiting=found.waiting,
        held=found.held,
        boundary=view.body.retention.boundary,
        resumed=resumed,
    )

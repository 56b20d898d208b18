"""Run records: made from the transition that admitted the run, by whoever finds them absent.

Source: schemas/SPEC.md#run-record.
"""

from shardrel.canonical import json
from shardrel.errors import ErrorCode, InternalError, NotFoundError, RefusedError
from shardrel.gate.head import broken
from shardrel.gate.history import walk
from shardrel.gate.operations import Done, read_done
from shardrel.gate.transitions.permits import permit_name
from shardrel.gate.view import GateView
from shardrel.records.gate import Run
from shardrel.records.run import RunRecord
from shardrel.records.transition import StartRun
from shardrel.store.layout import run_key
from shardrel.store.objects import settle_create
from shardrel.store.port import Conflict, Store

_MAX_RECORD = 1024 * 1024


def find_record(store: Store, run: str) -> RunRecord | None:
    """The record under the run's id, if there is one."""
    stored = store.read(run_key(run), max_bytes=_MAX_RECORD)
    return None if stored is None else json.decode(stored.data, RunRecord)


def record_of(store: Store, view: GateView, run: str) -> RunRecord:
    """The run's record; one that a crash left unwritten is made from the history of an open run.

    Raises:
        NotFoundError: ``gate.no-such-run``.
        IntegrityError: ``gate.history-broken`` when the record is another gate's, or the history lacks the run.

    Effects: one create where the record was absent.
    """
    found = find_record(store, run)
    if found is None:
        return _help(store, view, run)
    if (found.gate_id, found.dataset) != (view.body.gate_id, view.body.dataset):
        raise NotFoundError(ErrorCode.GATE_NO_RUN, f"run {run} is one of another gate", run=run)
    return _vouched(store, view, run, found)


def write_record(store: Store, done: Done) -> RunRecord:
    """Create the record of a run from the transition that admitted it; again is harmless.

    Raises:
        RefusedError: ``gate.run-exists`` when another run had the id.
        OutcomeUnknownError: ``outcome-unknown.create``.
    """
    record = _from_transition(done)
    key = run_key(record.run_id)
    outcome = store.create(key, json.encode(record))
    if isinstance(outcome, Conflict):
        raise RefusedError(
            ErrorCode.GATE_RUN_EXISTS,
            "another run had this id before; cancel this one and choose another",
            run=record.run_id,
        )
    settle_create(outcome, key)
    return record


def _vouched(store: Store, view: GateView, run: str, found: RunRecord) -> RunRecord:
    """A record counts for what the transition that it names says, and for what the gate says of an open run.

    Whoever can write the store could otherwise turn a job to another root by editing its record.
    """
    done = read_done(store, found.transition)
    if not isinstance(done.transition.request, StartRun) or _from_transition(done) != found or found.run_id != run:
        raise broken("the record of a run is not what its admission says", run=run)
    state = view.body.runs.get(run)
    if state is not None:
        if _as_started(view, run, state) != _said(found):
            raise broken("the record of a run is not what the gate says of it", run=run)
    elif walk(store, view, down_to=done.transition.sequence)[-1].digest != found.transition:
        raise broken("the record of a run names a transition that is not part of the history", run=run)
    return found


def _as_started(view: GateView, run: str, state: Run) -> tuple[object, ...]:
    """What the state says of the start of an open run: its first permit has a name that follows from the rest."""
    permit = permit_name(view.body, "run", run, state.sequence)
    pinned = (state.alias, state.root, state.generation, state.inputs)
    return *pinned, permit, state.tombstone_watermark, state.benchmark_fence


def _said(found: RunRecord) -> tuple[object, ...]:
    pinned = (found.alias, found.root, found.generation, found.inputs)
    return *pinned, found.permit, found.tombstone_watermark, found.benchmark_fence


def _help(store: Store, view: GateView, run: str) -> RunRecord:
    state = view.body.runs.get(run)
    if state is None:
        message = f"the gate of {view.body.dataset} has no run {run}; shardrel status lists the open ones"
        raise NotFoundError(ErrorCode.GATE_NO_RUN, message, run=run, dataset=view.body.dataset)
    link = walk(store, view, down_to=state.sequence)[-1]
    request = link.transition.request
    if not isinstance(request, StartRun) or request.run != run:
        raise broken("the history does not hold the start of a run that the state holds", sequence=state.sequence)
    return write_record(store, Done(link.transition, link.digest))


def _from_transition(done: Done) -> RunRecord:
    made, request, effects = done.transition, done.transition.request, done.transition.effects
    if not isinstance(request, StartRun) or effects.root is None or effects.opened_permit is None:
        raise InternalError(ErrorCode.INTERNAL, "the start of a run has a root and a permit")
    if effects.generation is None or effects.tombstone_watermark is None or effects.benchmark_fence is None:
        raise InternalError(ErrorCode.INTERNAL, "the start of a run has a generation and both fences")
    return RunRecord(
        run_id=request.run,
        dataset=made.dataset,
        gate_id=made.gate_id,
        alias=request.alias,
        root=effects.root,
        generation=effects.generation,
        permit=effects.opened_permit,
        tombstone_watermark=effects.tombstone_watermark,
        benchmark_fence=effects.benchmark_fence,
        inputs=effects.inputs,
        transition=done.digest,
    )

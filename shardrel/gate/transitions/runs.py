"""Runs and their checkpoints. Pure. Source: schemas/SPEC.md#transitions."""

from msgspec.structs import replace

from shardrel.errors import ErrorCode
from shardrel.gate.eligibility import eligible
from shardrel.gate.facts import Accept, Evidence, Refuse, refuse, swept
from shardrel.gate.transitions.admission import admitted
from shardrel.gate.transitions.permits import open_permit
from shardrel.records.gate import GateBody, Head, Run
from shardrel.records.policy import Policy
from shardrel.records.run import MILLIONTHS, RunInput
from shardrel.records.transition import AdmitCheckpoint, Effects, EndRun, GateRole, MixedAlias, RenewRun, StartRun


def start(body: GateBody, request: StartRun, evidence: Evidence, policy: Policy, role: GateRole) -> Accept | Refuse:
    """Resolve the alias once and pin its root for the run's whole life."""
    if request.run in body.runs or evidence.run_recorded:
        return refuse(ErrorCode.GATE_RUN_EXISTS, "there is, or was, a run of this id; choose another", run=request.run)
    inputs = _resolved(body, request)
    if isinstance(inputs, Refuse):
        return inputs
    first = inputs[0]
    run = Run(
        alias=first.alias,
        root=first.root,
        generation=first.generation,
        inputs=None if request.inputs is None else inputs,
        permit=None,
        closed=None,
        head=None,
        sequence=body.sequence,
        tombstone_watermark=body.tombstones.watermark,
        benchmark_fence=body.benchmarks.watermark,
    )
    verdict = _all_eligible(body, run, evidence, policy)
    if isinstance(verdict, Refuse):
        return verdict
    return _permitted(body, request.run, run, verdict, role)


def renew(body: GateBody, request: RenewRun, evidence: Evidence, policy: Policy, role: GateRole) -> Accept | Refuse:
    """Open a new permit for the run's own root at today's fences."""
    run = body.runs.get(request.run)
    if run is None:
        return _no_run(request.run, evidence)
    verdict = _all_eligible(body, run, evidence, policy)
    if isinstance(verdict, Refuse):
        if verdict.code in (ErrorCode.GATE_FENCES, ErrorCode.GATE_NOT_VERIFIED):
            return refuse(ErrorCode.PERMIT_RECHECK, verdict.message, **verdict.context)
        return verdict
    return _permitted(body, request.run, run, verdict, role)


def end(body: GateBody, request: EndRun, evidence: Evidence, policy: Policy, role: GateRole) -> Accept | Refuse:
    """Take the run out of the state; its record and the log keep it."""
    run = body.runs.get(request.run)
    if run is None:
        return _no_run(request.run, evidence)
    runs = {name: other for name, other in body.runs.items() if name != request.run}
    permits = {name: permit for name, permit in body.permits.items() if name != run.permit}
    closed = () if run.permit is None else (run.permit,)
    effects = Effects(generation=run.generation, root=run.root, closed_permits=closed, inputs=run.inputs)
    return Accept(body=replace(body, runs=runs, permits=permits), effects=effects, role=role)


def admit_checkpoint(
    body: GateBody, request: AdmitCheckpoint, evidence: Evidence, policy: Policy, role: GateRole
) -> Accept | Refuse:
    """Make a commit record the head of its run, under the run's open permit."""
    run = body.runs.get(request.run)
    if run is None:
        return _no_run(request.run, evidence)
    if run.permit is None or run.permit != request.permit:
        return _closed(request, run)
    generation = 0 if run.head is None else run.head.generation + 1
    parent = None if run.head is None else run.head.commit
    if (request.generation, request.parent) != (generation, parent):
        return refuse(
            ErrorCode.GATE_CHECKPOINT_ORDER,
            "a checkpoint follows the head of its run",
            run=request.run,
            generation=request.generation,
            expected=generation,
        )
    bad = swept(body, evidence)
    if bad is not None:
        return bad
    head = Head(generation=request.generation, commit=request.commit, step=request.step)
    runs = {**body.runs, request.run: replace(run, head=head)}
    return Accept(body=replace(body, runs=runs), effects=Effects(root=run.root), role=role)


def _permitted(body: GateBody, name: str, run: Run, attestations: tuple[str, ...], role: GateRole) -> Accept:
    for root in run.roots:
        body = admitted(body, root)
    opened, effects = open_permit(body, "run", name, run.root, run.generation)
    effects = replace(effects, inputs=run.inputs)
    permitted = replace(run, permit=effects.opened_permit, closed=None)
    opened = replace(opened, runs={**opened.runs, name: permitted})
    return Accept(body=opened, effects=effects, role=role, attestations=attestations)


def _resolved(body: GateBody, request: StartRun) -> tuple[RunInput, ...] | Refuse:
    """What the aliases point to now, in the order of the request."""
    asked = request.inputs or (MixedAlias(alias=request.alias, weight=MILLIONTHS),)
    names = [one.alias for one in asked]
    if names[0] != request.alias or len(set(names)) != len(names):
        return refuse(ErrorCode.INPUT_INVALID, "a mix names each alias once, the run's own first", run=request.run)
    for name in names:
        if name not in body.aliases:
            return refuse(ErrorCode.GATE_NO_ALIAS, f"there is no alias {name}; admit a root first", alias=name)
    found = [(one, body.aliases[one.alias]) for one in asked]
    return tuple(
        RunInput(alias=one.alias, root=alias.root, generation=alias.generation, weight=one.weight)
        for one, alias in found
    )


def _all_eligible(body: GateBody, run: Run, evidence: Evidence, policy: Policy) -> tuple[str, ...] | Refuse:
    """The attestations that say so of every root of the run."""
    attestations: tuple[str, ...] = ()
    for root in run.roots:
        verdict = eligible(body, root, evidence, policy, ask_approvals=False)
        if isinstance(verdict, Refuse):
            return verdict
        attestations += verdict.attestations
    return attestations


def _no_run(run: str, evidence: Evidence) -> Refuse:
    if evidence.run_recorded:
        return refuse(ErrorCode.GATE_RUN_ENDED, f"run {run} has ended", run=run)
    return refuse(ErrorCode.GATE_NO_RUN, f"there is no run {run}; shardrel status lists the open ones", run=run)


def _closed(request: AdmitCheckpoint, run: Run) -> Refuse:
    if run.closed is None:
        return refuse(ErrorCode.PERMIT_CLOSED, "the run has another permit by now", run=request.run)
    return refuse(
        ErrorCode.PERMIT_CLOSED,
        f"the run's permit was closed by {run.closed.by}; run: shardrel run renew {request.run}",
        run=request.run,
        by=run.closed.by,
        watermark=run.closed.watermark,
        sequence=run.closed.sequence,
    )

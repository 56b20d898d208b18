"""run start, show, renew, finish, cancel. Source: schemas/SPEC.md#transitions, #runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from shardrel.digest import Domain, domain_hash, lp
from shardrel.errors import ErrorCode, RefusedError
from shardrel.gate.call import Call, perform, settled
from shardrel.gate.evidence import gather_all
from shardrel.gate.facts import Evidence, Refuse
from shardrel.gate.head import broken
from shardrel.gate.history import walk
from shardrel.gate.operations import Done, read_done
from shardrel.gate.pending import operation
from shardrel.gate.register import submit
from shardrel.gate.run_records import find_record, record_of, write_record
from shardrel.gate.transitions.runs import renew as decide_renewal
from shardrel.gate.view import GateView, read_gate
from shardrel.records.gate import Closed, Head
from shardrel.records.run import RunRecord
from shardrel.records.transition import Assume, EndRun, MixedAlias, RenewRun, StartRun
from shardrel.store.layout import check_name
from shardrel.store.port import Store

RunState = Literal["open", "closed", "ended", "finished", "cancelled"]
_NOTHING = Evidence(signers=frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run as the gate has it.

    Attributes:
        permit: The open permit; None when it is closed or the run has ended.
        state: ``open`` or ``closed`` by its permit, else how it ended; ``ended`` where nobody asked how.
        closed: What closed the permit.
        head: The newest admitted checkpoint of an open run.
    """

    run_id: str
    alias: str
    root: str
    generation: int
    permit: str | None
    state: RunState
    closed: Closed | None
    head: Head | None
    record: RunRecord


def start(
    store: Store,
    dataset: str,
    alias: str,
    call: Call,
    *,
    run_id: str | None = None,
    expect_generation: int | None = None,
    inputs: Sequence[MixedAlias] | None = None,
) -> RunView:
    """Start a run on what the alias points to now; nothing in it reads the alias again.

    Args:
        store: Where the gate is.
        dataset: Whose gate.
        alias: Resolved once.
        call: Who asks; a runner signs.
        run_id: Its name; None derives one from the operation id.
        expect_generation: The alias's generation that the caller counts on; None assumes nothing.
        inputs: All aliases of a mix with their weights, ``alias`` first; None for a run on one.

    Raises:
        RefusedError: ``gate.run-exists``, and where the root is not eligible: ``permit.root-has-hit``,
            ``gate.not-verified-at-fences``, ``gate.root-invalid`` and others of SPEC #transitions.
        NotFoundError: ``gate.no-such-alias``.
        ShardrelError: As ``register.submit``.

    Effects: as ``register.submit``, then creates the run record; a crash before that leaves an open run,
        whose record the next reader makes.
    """
    assume = Assume(generation=expect_generation)
    mixed = None if inputs is None else tuple(inputs)
    names = [check_name(alias, "alias")] if mixed is None else [check_name(one.alias, "alias") for one in mixed]
    subject: list[Any] = [store.url, dataset, "run-start", alias, run_id, expect_generation]
    if mixed is not None:
        subject.append([[one.alias, one.weight] for one in mixed])
    with operation(call.pending, subject, call.operation_id) as operation_id:
        run = check_name(run_id, "run id") if run_id is not None else _derived_id(dataset, operation_id)
        done = submit(
            store,
            dataset,
            StartRun(assume=assume, run=run, alias=alias, inputs=mixed),
            operation_id=operation_id,
            signers=call.signers,
            gather=_about_aliases(store, names, run),
            recorded_at=call.recorded_at,
        )
        record = write_record(store, Done(done.transition, done.digest))
    return RunView(
        run_id=run,
        alias=alias,
        root=record.root,
        generation=record.generation,
        permit=record.permit,
        state="open",
        closed=None,
        head=None,
        record=record,
    )


def show(store: Store, dataset: str, run_id: str) -> RunView:
    """The run as the gate has it now; of one that has ended, the history tells how.

    Raises:
        NotFoundError: ``gate.absent``, ``gate.no-such-run``.

    Effects: creates the run record where a crash left none.
    """
    view = read_gate(store, dataset)
    seen = _shown(store, view, run_id)
    return seen if seen.state != "ended" else replace(seen, state=_outcome(store, view, seen))


def renew(store: Store, dataset: str, run_id: str, call: Call) -> RunView:
    """Open a new permit for the run's own root at today's fences; an open one stays.

    An earlier call that was not answered is finished first. Where a fence has closed the permit that it
    opened, a further one is asked for, unless the caller named the operation.

    Raises:
        RefusedError: ``permit.recheck-needed``, ``permit.root-has-hit``, ``gate.root-invalid``,
            ``gate.run-ended``.
        NotFoundError: ``gate.no-such-run``.
        ShardrelError: As ``register.submit``.

    Effects: as ``register.submit``; nothing where the permit is open.
    """
    view = read_gate(store, dataset)
    seen = _open_run(store, view, run_id)
    request = RenewRun(run=run_id)
    if seen.permit is not None:
        settled(store, dataset, request, call)
        return seen

    def about_root(now: GateView | None) -> Evidence:
        return _NOTHING if now is None else gather_all(store, _roots(now, run_id, seen), now.policy)

    done = perform(store, dataset, request, call, about_root, view=view)
    now = done.body.runs.get(run_id)
    if done.repeated and (now is None or now.permit != done.transition.effects.opened_permit):
        if call.operation_id is None:
            return renew(store, dataset, run_id, call)
        return _open_run(store, read_gate(store, dataset), run_id)
    return replace(seen, permit=done.transition.effects.opened_permit, state="open", closed=None)


def renewal(store: Store, dataset: str, seen: RunView) -> Refuse | None:
    """What a renewal would be refused with now; None where it would be granted, or nothing is to be renewed.

    Effects: none.
    """
    if seen.state != "closed":
        return None
    view = read_gate(store, dataset)
    evidence = gather_all(store, _roots(view, seen.run_id, seen), view.policy)
    verdict = decide_renewal(view.body, RenewRun(run=seen.run_id), evidence, view.policy, "runner")
    return verdict if isinstance(verdict, Refuse) else None


def finish(store: Store, dataset: str, run_id: str, call: Call) -> RunView:
    """End a run that did what it was for; it no longer pins its root.

    Raises:
        RefusedError: ``gate.run-ended``.
        NotFoundError: ``gate.no-such-run``.
        ShardrelError: As ``register.submit``.

    Effects: as ``register.submit``.
    """
    return _end(store, dataset, run_id, "finished", call)


def cancel(store: Store, dataset: str, run_id: str, call: Call) -> RunView:
    """End a run that is given up, such as one whose root has a hit.

    Raises:
        RefusedError: ``gate.run-ended``.
        NotFoundError: ``gate.no-such-run``.
        ShardrelError: As ``register.submit``.

    Effects: as ``register.submit``.
    """
    return _end(store, dataset, run_id, "cancelled", call)


def _end(store: Store, dataset: str, run_id: str, outcome: Literal["finished", "cancelled"], call: Call) -> RunView:
    seen = _shown(store, read_gate(store, dataset), check_name(run_id, "run id"))

    def recorded(_: GateView | None) -> Evidence:
        return Evidence(signers=frozenset(), run_recorded=True)

    perform(store, dataset, EndRun(run=run_id, outcome=outcome), call, recorded)
    return RunView(
        run_id=run_id,
        alias=seen.alias,
        root=seen.root,
        generation=seen.generation,
        permit=None,
        state=outcome,
        closed=seen.closed,
        head=seen.head,
        record=seen.record,
    )


def _derived_id(dataset: str, operation_id: str) -> str:
    words = (b"run", dataset.encode(), operation_id.encode())
    return "run-" + domain_hash(Domain.ID, *(lp(word) for word in words)).hex()[:16]


def _roots(view: GateView, run_id: str, seen: RunView) -> tuple[str, ...]:
    run = view.body.runs.get(run_id)
    return (seen.root,) if run is None else run.roots


def _about_aliases(store: Store, aliases: Sequence[str], run: str) -> Callable[[GateView | None], Evidence]:
    def about(view: GateView | None) -> Evidence:
        if view is None or any(alias not in view.body.aliases for alias in aliases):
            return _NOTHING
        if find_record(store, run) is not None:
            return Evidence(signers=frozenset(), run_recorded=True)
        return gather_all(store, [view.body.aliases[alias].root for alias in aliases], view.policy)

    return about


def _shown(store: Store, view: GateView, run_id: str) -> RunView:
    record = record_of(store, view, check_name(run_id, "run id"))
    run = view.body.runs.get(run_id)
    permit = None if run is None else run.permit
    state: RunState = "ended" if run is None else "closed" if permit is None else "open"
    return RunView(
        run_id=run_id,
        alias=record.alias,
        root=record.root,
        generation=record.generation,
        permit=permit,
        state=state,
        closed=None if run is None else run.closed,
        head=None if run is None else run.head,
        record=record,
    )


def _outcome(store: Store, view: GateView, seen: RunView) -> RunState:
    started = read_done(store, seen.record.transition).transition.sequence
    for link in walk(store, view, down_to=started):
        request = link.transition.request
        if isinstance(request, EndRun) and request.run == seen.run_id:
            return request.outcome
    raise broken("the history does not hold the end of a run that the state lacks", run=seen.run_id)


def _open_run(store: Store, view: GateView, run_id: str) -> RunView:
    seen = _shown(store, view, run_id)
    if seen.state == "ended":
        raise RefusedError(ErrorCode.GATE_RUN_ENDED, f"run {run_id} has ended", run=run_id)
    return seen

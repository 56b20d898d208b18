"""Commit records and their admission. Source: schemas/SPEC.md#checkpoints."""

import functools
from dataclasses import dataclass

from shardrel.canonical import json
from shardrel.checkpoint.preflight import Installed, read_commit
from shardrel.clock import now_utc
from shardrel.digest import Domain, digest_of, domain_hash, lp
from shardrel.errors import ConflictError, ErrorCode, NotFoundError, RefusedError
from shardrel.gate.call import Call, perform
from shardrel.gate.closure import manifest_closure
from shardrel.gate.condemned import cleared, seen_at
from shardrel.gate.facts import Evidence
from shardrel.gate.run_records import find_record
from shardrel.gate.view import GateView, read_gate
from shardrel.records.checkpoint import CommitRecord
from shardrel.records.gate import Closed, Head
from shardrel.records.transition import AdmitCheckpoint
from shardrel.store.layout import commit_key
from shardrel.store.objects import settle_create
from shardrel.store.port import Conflict, Store
from shardrel.trust.signer import Signer


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """What the gate says about an open run, where its fences stand, and how far retention has gone."""

    run_id: str
    gate_id: str
    root: str
    permit: str | None
    closed: Closed | None
    head: Head | None
    tombstone_watermark: int
    benchmark_fence: int
    boundary: int

    @property
    def next_generation(self) -> int:
        """Generation behind the head."""
        return 0 if self.head is None else self.head.generation + 1

    @property
    def parent(self) -> str | None:
        """Commit record of the head."""
        return None if self.head is None else self.head.commit


def read_run(store: Store, dataset: str, run: str) -> RunState:
    """Read an open run from the gate.

    Raises:
        NotFoundError: ``gate.no-such-run``.
        RefusedError: ``gate.run-ended``.
    """
    body = read_gate(store, dataset).body
    found = body.runs.get(run)
    if found is None:
        if find_record(store, run) is not None:
            raise RefusedError(ErrorCode.GATE_RUN_ENDED, f"run {run} has ended", run=run)
        message = f"the gate of {dataset} has no run {run}; shardrel status lists the open ones"
        raise NotFoundError(ErrorCode.GATE_NO_RUN, message, run=run, dataset=dataset)
    return RunState(
        run_id=run,
        gate_id=body.gate_id,
        root=found.root,
        permit=found.permit,
        closed=found.closed,
        head=found.head,
        tombstone_watermark=body.tombstones.watermark,
        benchmark_fence=body.benchmarks.watermark,
        boundary=seen_at(body.retention),
    )


def require_permit(run: RunState) -> str:
    """The run's open permit.

    Raises:
        RefusedError: ``permit.closed``, with the fence that closed it.
    """
    if run.permit is not None:
        return run.permit
    by = "an advance" if run.closed is None else run.closed.by
    raise RefusedError(
        ErrorCode.PERMIT_CLOSED,
        f"the run's permit was closed by {by}; run: shardrel run renew {run.run_id}",
        run=run.run_id,
        by=by,
        watermark=None if run.closed is None else run.closed.watermark,
    )


def install(store: Store, record: CommitRecord) -> Installed:
    """Create the commit record under its generation's name.

    Raises:
        ConflictError: ``gate.checkpoint-order``: another attempt has the name.
        OutcomeUnknownError: ``outcome-unknown.create``.
    """
    data = json.encode(record)
    key = commit_key(record.run_id, record.generation)
    outcome = store.create(key, data)
    if isinstance(outcome, Conflict):
        raise ConflictError(
            ErrorCode.GATE_CHECKPOINT_ORDER,
            "another attempt installed this generation first; recover, then go on",
            run=record.run_id,
            generation=record.generation,
        )
    settle_create(outcome, key)
    return Installed(digest=digest_of(data), record=record)


def check_untouched(store: Store, view: GateView, record: CommitRecord) -> None:
    """Look, before the record takes its name, whether gc condemned something of it since the attempt began.

    Raises:
        RefusedError: ``retention.swept``: save again.
    """
    if _cleared(store, view, record) is None:
        raise RefusedError(
            ErrorCode.RETENTION_SWEPT, "gc took objects of the checkpoint while it was written; save again"
        )


def _cleared(store: Store, view: GateView, record: CommitRecord) -> int | None:
    named = functools.partial(manifest_closure, store, record.manifest)
    return cleared(store, view.body.retention, record.boundary, named)


def operation_id(record: CommitRecord, permit: str) -> str:
    """The record's own operation for its own permit; a derived one after a renewal."""
    if permit == record.permit:
        return record.operation_id
    return domain_hash(Domain.ID, lp(record.operation_id.encode()), lp(permit.encode())).hex()[:32]


def admit(
    store: Store,
    dataset: str,
    installed: Installed,
    permit: str,
    signer: Signer,
    *,
    lost: bool = False,
    view: GateView | None = None,
) -> None:
    """Submit the admission of an installed commit record.

    Args:
        store: Where the gate is.
        dataset: The run's gate.
        installed: The record.
        permit: The run's open one.
        signer: A key of the runner's role.
        lost: Objects of it were collected. Its name cannot be taken again, so it becomes a generation that every
            restore passes over.
        view: The gate as the caller has just read it, to save reading it again.

    Raises:
        RefusedError: What the gate says, such as ``permit.closed``; ``retention.swept`` when gc condemned something of
            it since the attempt began.
        OutcomeUnknownError: ``outcome-unknown.swap``: run the same save or restore again.
    """
    record = installed.record

    request = AdmitCheckpoint(
        run=record.run_id,
        generation=record.generation,
        commit=installed.digest,
        parent=record.parent,
        step=record.cut.step,
        permit=permit,
    )
    call = Call(signers=[signer], recorded_at=now_utc(), operation_id=operation_id(record, permit), pending=None)

    def evidence(now: GateView | None) -> Evidence:
        found = 0 if now is None else now.body.retention.boundary if lost else _cleared(store, now, record)
        return Evidence(signers=frozenset(), run_recorded=True, cleared=found)

    perform(store, dataset, request, call, evidence, view=view)


def help_installed(store: Store, dataset: str, run: RunState, signer: Signer) -> RunState | None:
    """Admit the commit record behind the head, if one is installed there and the gate lets it in.

    Returns:
        The run after the admission; null when there was nothing to help, or it is void.
    """
    installed = read_commit(store, run.run_id, run.next_generation)
    if installed is None or run.permit is None:
        return None
    record = installed.record
    facts = (record.run_id, record.root, record.generation, record.parent)
    if facts != (run.run_id, run.root, run.next_generation, run.parent):
        return None
    try:
        admit(store, dataset, installed, run.permit, signer)
    except RefusedError as err:
        if err.code == ErrorCode.RETENTION_SWEPT:
            admit(store, dataset, installed, run.permit, signer, lost=True)
            return read_run(store, dataset, run.run_id)
        # Void, unless somebody else's help came first.
        again = read_run(store, dataset, run.run_id)
        return again if again.head != run.head else None
    return read_run(store, dataset, run.run_id)

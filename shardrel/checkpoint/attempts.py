"""One attempt at a generation: its identity, and its commit. Source: schemas/SPEC.md#checkpoints.

An attempt writes content first: objects, then the manifest. Only then does it take its generation's name,
and only the gate makes a checkpoint of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from shardrel.checkpoint.commits import (
    RunState,
    admit,
    check_untouched,
    help_installed,
    install,
    read_run,
    require_permit,
)
from shardrel.checkpoint.manifest import Expected, judge
from shardrel.checkpoint.replicas import NO_OWNERS, Owners
from shardrel.clock import fresh_id
from shardrel.errors import ErrorCode, RefusedError
from shardrel.gate.view import read_gate
from shardrel.records.checkpoint import CheckpointManifest, CommitRecord, Cut, OrderParameters, TensorEntry
from shardrel.records.fields import Count, DigestField, Name, Record
from shardrel.store.objects import put_record
from shardrel.store.port import Store
from shardrel.trust.signer import Signer


class Attempt(Record, frozen=True, kw_only=True):
    """What the coordinator hands out: one identity for all ranks' writes."""

    run: Name
    root: DigestField
    attempt: Name
    generation: Count
    parent: DigestField | None
    permit: str
    tombstone_watermark: Count
    benchmark_fence: Count
    boundary: Count


class Committed(Record, frozen=True, kw_only=True):
    """What the coordinator tells once the gate has admitted it."""

    generation: Count
    commit: DigestField


def needed(signer: Signer | None) -> Signer:
    """The coordinator's key.

    Raises:
        RefusedError: ``trust.role`` where the caller gave none.
    """
    if signer is None:
        raise RefusedError(ErrorCode.TRUST_ROLE, "the coordinator needs a key of the runner's role")
    return signer


def begin(store: Store, dataset: str, run: str, signer: Signer | None) -> Attempt:
    """Open an attempt at the generation behind the head. A closed permit ends the save here, before anything is written.

    Raises:
        RefusedError: ``permit.closed``, ``gate.run-ended``.
        NotFoundError: ``gate.no-such-run``.

    Effects: may admit an installed commit record.
    Ranks: the coordinator.
    """
    state = read_run(store, dataset, run)
    permit = require_permit(state)
    # The name that this save wants may hold an attempt whose admission was cut short.
    state = help_installed(store, dataset, state, needed(signer)) or state
    return _attempt(state, permit)


def _attempt(run: RunState, permit: str) -> Attempt:
    return Attempt(
        run=run.run_id,
        root=run.root,
        attempt=fresh_id(),
        generation=run.next_generation,
        parent=run.parent,
        permit=permit,
        tombstone_watermark=run.tombstone_watermark,
        benchmark_fence=run.benchmark_fence,
        boundary=run.boundary,
    )


def manifest_of(
    attempt: Attempt,
    cut: Cut,
    order: OrderParameters | None,
    tensors: Sequence[TensorEntry],
    trees: Mapping[str, Any],
    world_size: int,
    owners: Owners = NO_OWNERS,
) -> CheckpointManifest:
    """What the ranks stored, as one manifest that passes every check of a restore.

    Raises:
        RefusedError: The code of the first check that it does not pass.
    """
    manifest = CheckpointManifest(
        run_id=attempt.run,
        root=attempt.root,
        permit=attempt.permit,
        generation=attempt.generation,
        attempt=attempt.attempt,
        world_size=world_size,
        cut=cut,
        order=order,
        tensors=tuple(tensors),
        state=dict(trees),
        required_state=tuple(sorted(trees)),
        owners=dict(owners) or None,
    )
    for problem in judge(manifest, None, Expected(run_id=attempt.run)):
        raise RefusedError(
            problem.code, "a checkpoint is not complete, so it is not committed", subject=problem.subject
        )
    return manifest


def commit(store: Store, dataset: str, manifest: CheckpointManifest, attempt: Attempt, signer: Signer) -> Committed:
    """Manifest, commit record, gate: in this order.

    Raises:
        ConflictError: ``gate.checkpoint-order``: another attempt has the name.
        RefusedError: ``permit.closed``, ``retention.swept``.

    Effects: the manifest, the commit record, the gate's head.
    Ranks: the coordinator.
    """
    record = CommitRecord(
        run_id=attempt.run,
        root=attempt.root,
        generation=attempt.generation,
        parent=attempt.parent,
        manifest=put_record(store, manifest),
        attempt=attempt.attempt,
        operation_id=f"checkpoint-{attempt.attempt}",
        permit=attempt.permit,
        tombstone_watermark=attempt.tombstone_watermark,
        benchmark_fence=attempt.benchmark_fence,
        boundary=attempt.boundary,
        world_size=manifest.world_size,
        cut=manifest.cut,
    )
    view = read_gate(store, dataset)
    check_untouched(store, view, record)
    installed = install(store, record)
    admit(store, dataset, installed, attempt.permit, signer, view=view)
    return Committed(generation=record.generation, commit=installed.digest)

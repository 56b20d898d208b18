"""Save a checkpoint that exists only when committed. Source: schemas/SPEC.md#checkpoints."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from shardrel.canonical import json
from shardrel.checkpoint.commits import (
    RunState,
    admit,
    check_untouched,
    help_installed,
    install,
    read_run,
    require_permit,
)
from shardrel.checkpoint.cut import Captured, Mixed, agree
from shardrel.checkpoint.group import Group, on_coordinator, together
from shardrel.checkpoint.manifest import Expected, judge, tensor_entries
from shardrel.checkpoint.ownership import Owned, owned_regions, pack
from shardrel.checkpoint.tensors import CapturedState, region_bytes, replica_digest, take_apart
from shardrel.clock import fresh_id
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, RefusedError, RunFailedError
from shardrel.gate.view import read_gate
from shardrel.records.checkpoint import CheckpointManifest, CommitRecord, Cut, OrderParameters, Region
from shardrel.records.descriptor import TENSOR_BYTES
from shardrel.records.fields import Count, DigestField, Name, Record
from shardrel.store.objects import put, put_record
from shardrel.store.port import Store
from shardrel.trust.signer import Signer


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A checkpoint that the gate has admitted."""

    generation: int
    commit: str
    step: int


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


class Stored(Record, frozen=True, kw_only=True):
    """A region, with the position of its tensor in the list of tensors."""

    tensor: Count
    region: Region


class RankReport(Record, frozen=True, kw_only=True):
    """What one rank captured and stored, once it is durable."""

    attempt: Name
    cut: Cut
    replica: DigestField
    stored: tuple[Stored, ...]


class Committed(Record, frozen=True, kw_only=True):
    """What the coordinator tells once the gate has admitted it."""

    generation: Count
    commit: DigestField


def save(
    group: Group,
    store: Store,
    state: Mapping[str, Any],
    *,
    dataset: str,
    run: str,
    cut: Cut,
    order: OrderParameters | None,
    signer: Signer | None,
) -> Saved:
    """Save the state of one cut, equal on all ranks, and have the gate admit it.

    1. The coordinator opens an attempt. 2. Every rank stores its regions as objects. 3. All see what all captured and
    agree that it is one moment. 4. The coordinator checks the tiling and creates manifest and commit record.
    5. The gate admits it. 6. All ranks learn the outcome.

    Args:
        group: The ranks.
        store: Where the run's objects are.
        state: Names to nested state with tensors; the bytes are those of this moment, every rank returns after step 6.
        dataset: The gate of the run.
        run: The run.
        cut: The moment; equal on all ranks.
        order: What a resume must have again; null without a sample order.
        signer: A key of the runner's role; needed on the coordinator.

    Raises:
        RunFailedError: On every rank alike: ``permit.closed``, ``checkpoint.cut``, ``checkpoint.unsupported-state``, …

    Ranks: all.
    Effects: objects, then manifest, then commit record, then the gate's head. A crash leaves objects that nothing
    names, or a commit record that recovery helps.
    """
    attempt = json.decode(on_coordinator(group, lambda: _begin(store, dataset, run, signer)), Attempt)
    captured: list[CapturedState] = []

    def write() -> bytes:
        captured.append(take_apart(state))
        return json.encode(_write(group, store, captured[0], attempt, cut))

    reports = [json.decode(answer, RankReport) for answer in together(group, write)]
    _check_one_moment(reports, group.world_size)

    def commit() -> bytes:
        manifest = _manifest(attempt, cut, order, captured[0], reports)
        return json.encode(_commit(store, dataset, manifest, attempt, _needed(signer)))

    done = json.decode(on_coordinator(group, commit), Committed)
    return Saved(generation=done.generation, commit=done.commit, step=cut.step)


def _needed(signer: Signer | None) -> Signer:
    if signer is None:
        raise RefusedError(ErrorCode.TRUST_ROLE, "the coordinator needs a key of the runner's role")
    return signer


def _begin(store: Store, dataset: str, run: str, signer: Signer | None) -> bytes:
    """A closed permit ends the save here, before anything is written."""
    state = read_run(store, dataset, run)
    permit = require_permit(state)
    # The name that this save wants may hold an attempt whose admission was cut short.
    state = help_installed(store, dataset, state, _needed(signer)) or state
    return json.encode(_attempt(state, permit))


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


def _write(group: Group, store: Store, captured: CapturedState, attempt: Attempt, cut: Cut) -> RankReport:
    owned = owned_regions(captured.specs, group.rank, group.world_size)
    lengths = [captured.specs[one.tensor].item_bytes * prod(one.box.sizes) for one in owned]
    stored: list[Stored] = []
    for group_of in pack(lengths):
        stored += _write_object(store, captured, [owned[i] for i in group_of], group, attempt, cut)
    return RankReport(attempt=attempt.attempt, cut=cut, replica=replica_digest(captured), stored=tuple(stored))


def _write_object(
    store: Store, captured: CapturedState, owned: list[Owned], group: Group, attempt: Attempt, cut: Cut
) -> Iterator[Stored]:
    """One object of a few regions, one after the other."""
    parts = [region_bytes(captured.tensors[one.tensor], one.box) for one in owned]
    descriptor, _ = put(store, parts[0] if len(parts) == 1 else b"".join(parts), TENSOR_BYTES)
    start = 0
    for one, part in zip(owned, parts, strict=True):
        region = Region(
            offsets=one.box.offsets,
            sizes=one.box.sizes,
            object=descriptor,
            start=start,
            length=len(part),
            digest=descriptor.digest if len(parts) == 1 else digest_of(part),
            elements=prod(one.box.sizes),
            encoding="raw-little-endian.v1",
            rank=group.rank,
            replicas=tuple(range(group.world_size)),
            attempt=attempt.attempt,
            step=cut.step,
        )
        start += len(part)
        yield Stored(tensor=one.tensor, region=region)


def _check_one_moment(reports: list[RankReport], world_size: int) -> None:
    captures = [
        Captured(rank=rank, attempt=report.attempt, cut=report.cut, replica=report.replica)
        for rank, report in enumerate(reports)
    ]
    verdict = agree(captures, world_size)
    if isinstance(verdict, Mixed):
        raise RunFailedError(
            ErrorCode.CHECKPOINT_CUT,
            f"ranks hold another {verdict.field} than the coordinator, so there is no one state to save",
            field=verdict.field,
            ranks=[str(rank) for rank in verdict.ranks],
        )


def _manifest(
    attempt: Attempt,
    cut: Cut,
    order: OrderParameters | None,
    captured: CapturedState,
    reports: Sequence[RankReport],
) -> CheckpointManifest:
    """What the ranks stored, as one manifest that passes every check of a restore.

    Raises:
        RefusedError: The code of the first check that it does not pass.
    """
    stored = [(one.tensor, one.region) for report in reports for one in report.stored]
    manifest = CheckpointManifest(
        run_id=attempt.run,
        root=attempt.root,
        permit=attempt.permit,
        generation=attempt.generation,
        attempt=attempt.attempt,
        world_size=len(reports),
        cut=cut,
        order=order,
        tensors=tensor_entries(captured.specs, stored),
        state=dict(captured.trees),
        required_state=tuple(sorted(captured.trees)),
    )
    for problem in judge(manifest, None, Expected(run_id=attempt.run)):
        raise RefusedError(
            problem.code, "a checkpoint is not complete, so it is not committed", subject=problem.subject
        )
    return manifest


def _commit(store: Store, dataset: str, manifest: CheckpointManifest, attempt: Attempt, signer: Signer) -> Committed:
    """Manifest, commit record, gate: in this order."""
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

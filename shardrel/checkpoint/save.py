"""Save a checkpoint that exists only when committed. Source: schemas/SPEC.md#checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardrel.canonical import json
from shardrel.checkpoint.attempts import Attempt, Committed, begin, commit, manifest_of, needed
from shardrel.checkpoint.coverage import Box
from shardrel.checkpoint.cut import Captured, Mixed, agree
from shardrel.checkpoint.group import Group, on_coordinator, together
from shardrel.checkpoint.manifest import tensor_entries
from shardrel.checkpoint.ownership import Owned, owned_regions
from shardrel.checkpoint.tensors import CapturedState, elements_of, replica_digest, take_apart
from shardrel.checkpoint.writing import Kept, Piece, Stamp, write_pieces
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.records.checkpoint import Cut, OrderParameters, Region
from shardrel.records.fields import Count, DigestField, Name, Record
from shardrel.store.port import Store
from shardrel.trust.signer import Signer


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A checkpoint that the gate has admitted."""

    generation: int
    commit: str
    step: int


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
    kept: Kept | None = None,
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
        kept: What this process saved last of this run; what has not changed is not written again.

    Raises:
        RunFailedError: On every rank alike: ``permit.closed``, ``checkpoint.cut``, ``checkpoint.unsupported-state``, …

    Ranks: all.
    Effects: objects, then manifest, then commit record, then the gate's head. A crash leaves objects that nothing
    names, or a commit record that recovery helps.
    """
    attempt = json.decode(on_coordinator(group, lambda: json.encode(begin(store, dataset, run, signer))), Attempt)
    captured: list[CapturedState] = []
    kept = kept or Kept()

    def write() -> bytes:
        captured.append(take_apart(state))
        return json.encode(_write(group, store, captured[0], attempt, cut, kept))

    reports = [json.decode(answer, RankReport) for answer in together(group, write)]
    _check_one_moment(reports, group.world_size)

    def finish() -> bytes:
        entries = tensor_entries(captured[0].specs, [(one.tensor, one.region) for r in reports for one in r.stored])
        manifest = manifest_of(attempt, cut, order, entries, captured[0].trees, len(reports))
        return json.encode(commit(store, dataset, manifest, attempt, needed(signer)))

    done = json.decode(on_coordinator(group, finish), Committed)
    kept.admitted()
    return Saved(generation=done.generation, commit=done.commit, step=cut.step)


def _write(group: Group, store: Store, captured: CapturedState, attempt: Attempt, cut: Cut, kept: Kept) -> RankReport:
    owned = owned_regions(captured.specs, group.rank, group.world_size)
    replicas = tuple(range(group.world_size))
    pieces = [_piece(captured, one, replicas) for one in owned]
    stamp = Stamp(rank=group.rank, attempt=attempt.attempt, step=cut.step)
    stored = [
        Stored(tensor=owned[one.piece].tensor, region=one.region) for one in write_pieces(store, pieces, stamp, kept)
    ]
    return RankReport(attempt=attempt.attempt, cut=cut, replica=replica_digest(captured), stored=tuple(stored))


def _piece(captured: CapturedState, owned: Owned, replicas: tuple[int, ...]) -> Piece:
    tensor = captured.tensors[owned.tensor]
    whole = Box((0,) * tensor.ndim, tuple(tensor.shape))
    return Piece(
        box=owned.box,
        item_bytes=captured.specs[owned.tensor].item_bytes,
        elements=elements_of(tensor, whole.offsets),
        replicas=replicas,
    )


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

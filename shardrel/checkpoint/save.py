"""Save a checkpoint that exists only when committed. Source: schemas/SPEC.md#checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardrel.canonical import json
from shardrel.checkpoint.attempts import Attempt, Committed, begin, needed
from shardrel.checkpoint.group import Group, on_coordinator, together
from shardrel.checkpoint.parts import RankReport, Seat, check_one_moment, commit_parts, write_part
from shardrel.checkpoint.replicas import NO_OWNERS, Owners
from shardrel.checkpoint.tensors import CapturedState, replica_sums, take_apart
from shardrel.checkpoint.writing import Kept
from shardrel.records.checkpoint import Cut, OrderParameters
from shardrel.store.port import Store
from shardrel.trust.signer import Signer


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A checkpoint that the gate has admitted."""

    generation: int
    commit: str
    step: int


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
    owners: Owners = NO_OWNERS,
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
        owners: Ranks by the paths of state, such as ``model/norm.running_mean``, of which their copies are the
            checkpoint's, whatever the others hold; equal on all ranks. Everything else has to be equal.

    Raises:
        RunFailedError: On every rank alike: ``permit.closed``, ``checkpoint.cut``, ``checkpoint.replica``, ``checkpoint.unsupported-state``, …

    Ranks: all.
    Effects: objects, then manifest, then commit record, then the gate's head. A crash leaves objects that nothing
    names, or a commit record that recovery helps.
    """
    attempt = json.decode(on_coordinator(group, lambda: json.encode(begin(store, dataset, run, signer))), Attempt)
    seat = Seat(rank=group.rank, world_size=group.world_size, owners=owners)
    captured: list[CapturedState] = []
    kept = kept or Kept()

    def write() -> bytes:
        captured.append(take_apart(state))
        return json.encode(write_part(store, captured[0], seat, attempt, cut, kept))

    def sums() -> list[dict[str, str]]:
        mine = json.encode(replica_sums(captured[0], owners))
        return [json.decode(answer, dict[str, str]) for answer in together(group, lambda: mine)]

    reports = [json.decode(answer, RankReport) for answer in together(group, write)]
    check_one_moment(reports, group.world_size, sums)

    def finish() -> bytes:
        return json.encode(commit_parts(store, dataset, attempt, captured[0], reports, order, needed(signer), owners))

    done = json.decode(on_coordinator(group, finish), Committed)
    kept.admitted(done.commit)
    return Saved(generation=done.generation, commit=done.commit, step=cut.step)

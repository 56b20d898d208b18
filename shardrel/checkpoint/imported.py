"""What another program saved becomes the first checkpoint of a run. Source: schemas/SPEC.md#checkpoint-exchange."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardrel.canonical.json import MAX_INTEGER
from shardrel.checkpoint.attempts import begin, commit, manifest_of
from shardrel.checkpoint.leaves import leaves
from shardrel.checkpoint.save import Saved
from shardrel.checkpoint.writing import Kept, Piece, Stamp, write_pieces
from shardrel.errors import ConflictError, ErrorCode, InvalidInputError
from shardrel.records.checkpoint import MAX_DIMENSIONS, Cut, Region, TensorEntry
from shardrel.store.port import Store
from shardrel.trust.signer import Signer


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where an import goes.

    Attributes:
        dataset: The gate of the run.
        cut: The moment that the state is of; the run's beginning.
        signer: A key of the runner's role.
    """

    store: Store
    dataset: str
    run: str
    cut: Cut
    signer: Signer


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What of the files is imported, and as what.

    Attributes:
        under: A name that the whole state is put under; null leaves that to the format.
        leave_out: Dotted names of entries, or of what they lie below, that are not imported.
    """

    under: str | None = None
    leave_out: Sequence[str] = ()

    def takes(self, name: str) -> bool:
        """Whether an entry is imported."""
        return not any(name == one or name.startswith(f"{one}.") for one in self.leave_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One tensor of a file; ``pieces`` should tile it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    pieces: Sequence[Piece]


def commit_found(target: Target, tensors: Sequence[Found], trees: Mapping[str, Any]) -> Saved:
    """Commit what was found, with no sample order.

    Raises:
        InvalidInputError: ``input.invalid``: nothing was found; ``checkpoint.unsupported-state``: a tensor of more
            dimensions than a manifest can tell, or of larger ones.
        ConflictError: ``gate.checkpoint-order``: the run has a checkpoint.
        RefusedError: What ``save`` refuses; ``checkpoint.gap`` and ``checkpoint.overlap`` where pieces don't tile.

    Effects: objects, then manifest, then commit record, then the gate's head.
    """
    for tensor in tensors:
        _check_shape(tensor)
    if not any(leaves(trees)):
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "there is nothing to import")
    attempt = begin(target.store, target.dataset, target.run, target.signer)
    if attempt.generation > 0:
        raise ConflictError(
            ErrorCode.GATE_CHECKPOINT_ORDER, "a run that has checkpoints goes on from them", run=target.run
        )
    stamp = Stamp(rank=0, attempt=attempt.attempt, step=target.cut.step, parent=attempt.parent)
    entries = _entries(target.store, tensors, stamp)
    manifest = manifest_of(attempt, target.cut, None, entries, trees, 1)
    done = commit(target.store, target.dataset, manifest, attempt, target.signer)
    return Saved(generation=done.generation, commit=done.commit, step=target.cut.step)


def _check_shape(tensor: Found) -> None:
    if len(tensor.shape) > MAX_DIMENSIONS or any(size > MAX_INTEGER for size in tensor.shape):
        raise InvalidInputError(
            ErrorCode.CHECKPOINT_STATE_TYPE, "a tensor has too many dimensions, or too large ones", path=tensor.name
        )


def _entries(store: Store, tensors: Sequence[Found], stamp: Stamp) -> list[TensorEntry]:
    owners = [(tensor.name, piece) for tensor in tensors for piece in tensor.pieces]
    regions: dict[str, list[Region]] = {tensor.name: [] for tensor in tensors}
    for one in write_pieces(store, [piece for _, piece in owners], stamp, Kept()):
        regions[owners[one.piece][0]].append(one.region)
    made = [
        TensorEntry(
            name=tensor.name,
            shape=tensor.shape,
            dtype=tensor.dtype,
            regions=tuple(sorted(regions[tensor.name], key=lambda region: region.offsets)),
        )
        for tensor in tensors
    ]
    return sorted(made, key=lambda entry: entry.name)

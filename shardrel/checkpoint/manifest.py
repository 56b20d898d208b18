"""Build a manifest of what the ranks stored, and judge one. Pure. Source: schemas/SPEC.md#checkpoints."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

from shardrel.checkpoint.coverage import Box, Gap, OutOfBounds, Overlap, coverage
from shardrel.checkpoint.cut import stray_regions
from shardrel.checkpoint.dtypes import ITEM_BYTES
from shardrel.checkpoint.ownership import TensorSpec
from shardrel.checkpoint.replicas import undeclared
from shardrel.checkpoint.state_tree import tensor_names
from shardrel.errors import ErrorCode, FormatError
from shardrel.records.checkpoint import (
    CheckpointManifest,
    CommitRecord,
    OrderParameters,
    Region,
    TensorEntry,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A setting that the checkpoint has otherwise than whoever wants it, in words."""

    setting: str
    saved: str
    wanted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong; ``subject`` is a tensor, a state name, an object key or a field.

    Attributes:
        differences: Where nothing is wrong with the checkpoint itself, but it is not what was asked for.
    """

    code: ErrorCode
    subject: str
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a restore is for; null expects nothing of that field."""

    run_id: str
    root: str | None = None
    order: OrderParameters | None = None


def tensor_entries(specs: Sequence[TensorSpec], stored: Iterable[tuple[int, Region]]) -> tuple[TensorEntry, ...]:
    """Entries of all tensors with the regions that the ranks stored, by position in the list of tensors."""
    regions: dict[int, list[Region]] = {}
    for index, region in stored:
        regions.setdefault(index, []).append(region)
    return tuple(
        TensorEntry(
            name=spec.name,
            shape=spec.shape,
            dtype=spec.dtype,
            regions=tuple(sorted(regions.get(index, []), key=lambda region: region.offsets)),
        )
        for index, spec in enumerate(specs)
    )


def judge(manifest: CheckpointManifest, commit: CommitRecord | None, expected: Expected) -> list[Problem]:
    """Everything that the records alone can tell, in the order of the specification; no problem is passed over."""
    checks: list[Callable[[], list[Problem]]] = [
        lambda: _schema(manifest),
        lambda: _identity(manifest, commit, expected),
        lambda: [Problem(code=ErrorCode.CHECKPOINT_CUT, subject=name) for name in stray_regions(manifest)],
        lambda: [Problem(code=ErrorCode.CHECKPOINT_REPLICA, subject=name) for name in undeclared(manifest)],
        lambda: _state(manifest),
        lambda: [problem for entry in manifest.tensors for problem in _tiling(entry)],
    ]
    return [problem for check in checks for problem in check()]


def _schema(manifest: CheckpointManifest) -> list[Problem]:
    unknown = [entry.name for entry in manifest.tensors if entry.dtype not in ITEM_BYTES]
    names = [entry.name for entry in manifest.tensors]
    if len(set(names)) != len(names):
        unknown.append("tensors")
    try:
        tensor_names(manifest.state)
    except FormatError:
        unknown.append("state")
    return [Problem(code=ErrorCode.CHECKPOINT_SCHEMA, subject=name) for name in unknown]


def _identity(manifest: CheckpointManifest, commit: CommitRecord | None, expected: Expected) -> list[Problem]:
    wrong = []
    if manifest.run_id != expected.run_id:
        wrong.append(_another("runId", Difference(setting="run", saved=manifest.run_id, wanted=expected.run_id)))
    if expected.root is not None and manifest.root != expected.root:
        wrong.append(_another("root", Difference(setting="root", saved=manifest.root, wanted=expected.root)))
    if expected.order is not None and manifest.order != expected.order and not _before_any_order(manifest):
        wrong.append(_another("order", *order_differences(manifest.order, expected.order)))
    if commit is not None:
        fields = ("run_id", "root", "generation", "attempt", "permit", "world_size", "cut")
        differ = [name for name in fields if getattr(commit, name) != getattr(manifest, name)]
        wrong += [_another(f"commit.{name}") for name in differ]
    return wrong


def _another(subject: str, *differences: Difference) -> Problem:
    return Problem(code=ErrorCode.CHECKPOINT_IDENTITY, subject=subject, differences=differences)


def order_differences(saved: OrderParameters | None, wanted: OrderParameters) -> list[Difference]:
    """The settings of two sample orders that are not alike."""
    if saved is None:
        return [Difference(setting="sample order", saved="none", wanted=wanted.function)]
    pairs = {name: (getattr(saved, name), getattr(wanted, name)) for name in wanted.__struct_fields__}
    return [
        Difference(setting=name, saved=_word(was), wanted=_word(now))
        for name, (was, now) in pairs.items()
        if was != now
    ]


def _word(value: str | int | None) -> str:
    return "none" if value is None else str(value)


def _before_any_order(manifest: CheckpointManifest) -> bool:
    """Nothing has been consumed, so every order goes on from there."""
    return manifest.order is None and manifest.cut.cursor == 0


def _state(manifest: CheckpointManifest) -> list[Problem]:
    absent = [name for name in manifest.required_state if name not in manifest.state]
    try:
        there = {entry.name for entry in manifest.tensors}
        absent += [name for name in tensor_names(manifest.state) if name not in there]
    except FormatError:
        return []  # already a problem of the schema
    return [Problem(code=ErrorCode.CHECKPOINT_MISSING, subject=name) for name in absent]


def _tiling(entry: TensorEntry) -> list[Problem]:
    item = ITEM_BYTES.get(entry.dtype, 0)
    for region in entry.regions:
        inside = region.start + region.length <= region.object.size
        if not inside or prod(region.sizes) != region.elements or region.elements * item != region.length:
            return [Problem(code=ErrorCode.CHECKPOINT_BYTES, subject=entry.name)]
    match coverage(entry.shape, [Box(region.offsets, region.sizes) for region in entry.regions]):
        case Gap():
            return [Problem(code=ErrorCode.CHECKPOINT_GAP, subject=entry.name)]
        case Overlap() | OutOfBounds():
            return [Problem(code=ErrorCode.CHECKPOINT_OVERLAP, subject=entry.name)]
    return []

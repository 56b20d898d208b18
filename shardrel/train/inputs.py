"""The releases that a run is pinned to: one, or those of a mix. Source: schemas/SPEC.md#runs, #mixing"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from shardrel.canonical import json
from shardrel.data.decoded import ShardEntry
from shardrel.data.encryption import ReleaseLocks
from shardrel.data.mix import MixedOrder, MixInput, RunOrder, check_run_order
from shardrel.data.order import SampleOrder
from shardrel.data.plan import effective_split, split_records
from shardrel.data.shards import select_fields
from shardrel.digest import Digest, digest_of, parse_digest
from shardrel.errors import ErrorCode, IntegrityError, InvalidInputError
from shardrel.records.release import Release, Shard
from shardrel.records.run import MILLIONTHS, RunRecord
from shardrel.records.schema import Field, RecordSchema
from shardrel.store.objects import get_by_digest, get_record
from shardrel.store.port import Store
from shardrel.train.keys import environment_keys
from shardrel.trust.key_encryption import Unlocked


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedInput:
    """One release that the run reads, ``weight`` in millionths."""

    root: str
    weight: int
    release: Release
    schema: RecordSchema
    unlocked: Unlocked = field(repr=False)

    @property
    def locks(self) -> ReleaseLocks:
        """What opens its shards."""
        return ReleaseLocks(release=self.release, unlocked=self.unlocked)

    def split_records(self, split: str | None) -> int:
        """Its records of the run's split."""
        return split_records(self.release, effective_split(self.release, split))


@dataclass(frozen=True, slots=True, kw_only=True)
class AllShards:
    """The shards of all inputs, counted through."""

    shards: tuple[Shard, ...]


def read_inputs(store: Store, record: RunRecord, columns: tuple[str, ...], given: Unlocked | None) -> list[PinnedInput]:
    """Read every root of the run by its digest, and find the keys of those that are encrypted.

    Raises:
        NotFoundError, IntegrityError: of what is read; ``root.wrong-dataset`` for a root of another dataset.
        InvalidInputError: ``input.no-such-column``; ``schema.conflict`` where the inputs have not the same columns.
    """
    pinned = [(record.root, MILLIONTHS)] if record.inputs is None else [(one.root, one.weight) for one in record.inputs]
    inputs = []
    for root, weight in pinned:
        release = json.decode(get_by_digest(store, root), Release)
        if release.dataset != record.dataset:
            raise IntegrityError(ErrorCode.ROOT_DATASET, "the root is one of another dataset", root=root)
        unlocked = given or (Unlocked() if release.encryption is None else environment_keys())
        unlocked.check(release.encryption)
        schema = get_record(store, release.objects.record_schema, RecordSchema)
        inputs.append(PinnedInput(root=root, weight=weight, release=release, schema=schema, unlocked=unlocked))
    fields_of(inputs, columns)
    return inputs


def fields_of(inputs: Sequence[PinnedInput], columns: tuple[str, ...]) -> tuple[Field, ...]:
    """The wanted columns, alike in every input.

    Raises:
        InvalidInputError: ``input.no-such-column``, ``schema.conflict``.
    """
    found = [select_fields(one.schema, columns) for one in inputs]
    for fields in found[1:]:
        for first, other in zip(found[0], fields, strict=True):
            if first != other:
                raise InvalidInputError(
                    ErrorCode.SCHEMA_CONFLICT, "a column of a mix is not the same in all inputs", column=first.name
                )
    return found[0]


def split_of(inputs: Sequence[PinnedInput], split: str | None) -> str | None:
    """Null when the split is the whole of every input, so that no row list is needed."""
    return None if all(effective_split(one.release, split) is None for one in inputs) else split


def splits_of(inputs: Sequence[PinnedInput]) -> list[str]:
    """Names of the splits that any input has."""
    return sorted({name for one in inputs for name in one.release.totals.splits})


def entries_of(inputs: Sequence[PinnedInput]) -> tuple[ShardEntry, ...]:
    """The shards of all inputs, counted through."""
    return tuple(
        ShardEntry(shard=shard, schema=one.schema, locks=None if one.release.encryption is None else one.locks)
        for one in inputs
        for shard in one.release.shards
    )


def order_of(
    inputs: Sequence[PinnedInput], sizes: Sequence[int], *, mixed: bool, seed: int, block_shards: int
) -> RunOrder:
    """The order of a run, from the samples of the split in every shard.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    orders, at = [], 0
    for one in inputs:
        own = tuple(sizes[at : at + len(one.release.shards)])
        orders.append(SampleOrder(sizes=own, seed=seed, block_shards=block_shards))
        at += len(own)
    if not mixed:
        return check_run_order(orders[0])
    mix = [MixInput(order=order, weight=one.weight) for order, one in zip(orders, inputs, strict=True)]
    return check_run_order(MixedOrder(inputs=tuple(mix), seed=seed))


def identity(record: RunRecord) -> Digest:
    """What the ledger begins with: the root, or the digest of all inputs of a mix."""
    return parse_digest(record.root) if record.inputs is None else digest_of(json.encode(list(record.inputs)))

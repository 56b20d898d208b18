"""Admission of a job's ranks before step 0. Source: schemas/SPEC.md#runs.

The alias is not read here, nor anywhere in a run: the run record names the root, the gate the permit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from shardrel.canonical import json
from shardrel.checkpoint.commits import read_run, require_permit
from shardrel.checkpoint.group import Group, on_coordinator, together
from shardrel.data.cache import ShardCache
from shardrel.data.order import ORDER_FUNCTION
from shardrel.data.plan import duty
from shardrel.data.shards import count_split, shard_descriptor
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, IntegrityError, RunFailedError
from shardrel.gate.run_records import record_of
from shardrel.gate.view import read_gate
from shardrel.records.run import RunRecord
from shardrel.store.port import Store
from shardrel.train.agreement import Disagreed, RankReport, VerifiedShard, agree
from shardrel.train.hello import hello, judge_hellos
from shardrel.train.inputs import AllShards, PinnedInput, entries_of, order_of, read_inputs, split_of, splits_of
from shardrel.train.pin import PinnedRun, TrainPlan
from shardrel.train.surroundings import environment_watch, told_root
from shardrel.train.watch import TimedGroup, Watch, stopwatch
from shardrel.trust.key_encryption import Unlocked


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verified:
    inputs: tuple[PinnedInput, ...]
    report: RankReport


def join(
    group: Group,
    store: Store,
    cache: ShardCache,
    *,
    dataset: str,
    run: str,
    plan: TrainPlan,
    root: str | None = None,
    unlocked: Unlocked | None = None,
    watch: Watch | None = None,
) -> PinnedRun:
    """Pin the run's root on every rank, or fail on every rank before step 0.

    1. All are of one version and were told the same. 2. The coordinator reads run record and gate and sends both out.
    3. Every rank reads the root by digest and verifies the shards of its duty. 4. Every rank reports. 5. All judge all
    reports alike.

    Args:
        group: All ranks.
        store: Where gate and release are.
        cache: Of this rank's host; it holds shards as they are stored.
        dataset: The gate.
        run: The run's id.
        plan: The same on every rank.
        root: What this rank was told that the run's root is; None: what SHARDREL_ROOT says, if it does.
        unlocked: Keys of an encrypted release; None: those that SHARDREL_ENCRYPTION_KEY names on this rank.
        watch: Shows how it goes, here and in everything that is done with what is pinned; None: where SHARDREL_WATCH
            and SHARDREL_EVENTS say.

    Raises:
        RunFailedError: On every rank alike, with the guilty ranks: ``run.version-disagreement``,
            ``run.root-disagreement``, ``run.coverage``, ``run.barrier-timeout``, ``permit.closed``, or what a rank
            found, such as ``storage.digest-mismatch``.

    Ranks: all.
    """
    watch = watch or environment_watch()
    root = root or told_root()
    elapsed = stopwatch()
    watch.begins(group, run)
    group = TimedGroup(group, watch)
    with watch.failures():
        _accept(judge_hellos(group.exchange(hello(dataset, run, _settings(plan)))))
        record = json.decode(on_coordinator(group, lambda: json.encode(_announce(store, dataset, run))), RunRecord)
        verified: list[_Verified] = []

        def verify() -> bytes:
            verified.append(_verify(_Duty(group, store, cache, record, plan, root, watch), unlocked))
            return json.encode(verified[0].report)

        reports = [json.decode(answer, RankReport) for answer in together(group, verify)]
        mine = verified[0]
        total = sum(one.split_records(plan.split) for one in mine.inputs)
        sizes = _accept(agree(reports, record.run_id, record.root, _all_shards(mine.inputs), total)).sizes
        mixed = record.inputs is not None
        order = order_of(mine.inputs, sizes, mixed=mixed, seed=plan.seed, block_shards=plan.block_shards)
    shards, splits = mine.report.shards, splits_of(mine.inputs)
    watch.pinned(group.rank, len(shards), sum(shard.samples for shard in shards), elapsed())
    if group.rank == 0 and plan.split is None and len(splits) > 1:
        watch.reads_all(splits)
    return PinnedRun(record=record, inputs=mine.inputs, plan=plan, order=order, watch=watch)


T = TypeVar("T")


def _accept(verdict: T | Disagreed) -> T:
    if isinstance(verdict, Disagreed):
        raise RunFailedError(
            verdict.code,
            f"ranks don't agree before step 0 on: {verdict.field}",
            field=verdict.field,
            ranks=[str(rank) for rank in verdict.ranks],
        )
    return verdict


def _announce(store: Store, dataset: str, run: str) -> RunRecord:
    record = record_of(store, read_gate(store, dataset), run)
    state = read_run(store, dataset, run)
    require_permit(state)
    if (record.run_id, record.dataset, record.gate_id, record.root) != (run, dataset, state.gate_id, state.root):
        raise IntegrityError(
            ErrorCode.RUN_ROOT_DISAGREEMENT, "run record and gate name different roots, datasets or gates", run=run
        )
    return record


@dataclass(frozen=True, slots=True)
class _Duty:
    """What a rank needs to verify its part."""

    group: Group
    store: Store
    cache: ShardCache
    record: RunRecord
    plan: TrainPlan
    told: str | None
    watch: Watch


def _verify(duty_of: _Duty, given: Unlocked | None) -> _Verified:
    record, plan, store = duty_of.record, duty_of.plan, duty_of.store
    if duty_of.told not in (None, record.root):
        message = f"a rank was told root {duty_of.told}, and run {record.run_id} is pinned to {record.root}"
        raise IntegrityError(
            ErrorCode.RUN_ROOT_DISAGREEMENT, message, run=record.run_id, root=record.root, told=duty_of.told
        )
    inputs = tuple(read_inputs(store, record, plan.columns, given))
    split = split_of(inputs, plan.split)
    for one in reversed(inputs):
        duty_of.watch.resolved(one.release, one.root, duty_of.cache.counts, one.split_records(plan.split))
    entries = entries_of(inputs)
    shards = []
    for number in duty(len(entries), duty_of.group.rank, duty_of.group.world_size):
        shard, locks = entries[number].shard, entries[number].locks
        data = duty_of.cache.read(shard_descriptor(shard))
        samples = count_split(data, shard, split, None if locks is None else locks.of(shard))
        shards.append(VerifiedShard(number=number, digest=digest_of(data), samples=samples))
    report = RankReport(
        run_id=record.run_id,
        root=digest_of(json.encode(inputs[0].release)),
        format=ORDER_FUNCTION,
        settings=_settings(plan, [digest_of(json.encode(one.release)) for one in inputs[1:]]),
        shards=tuple(shards),
    )
    return _Verified(inputs=inputs, report=report)


def _all_shards(inputs: Sequence[PinnedInput]) -> AllShards:
    return AllShards(shards=tuple(shard for one in inputs for shard in one.release.shards))


def _settings(plan: TrainPlan, more: Sequence[str] = ()) -> str:
    """Digest of what all are told alike, and of the further roots that they read."""
    told = [list(plan.columns), plan.global_batch, plan.seed, plan.block_shards, plan.split, plan.on_closed]
    return digest_of(json.encode([*told, *more]))

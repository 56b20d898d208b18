"""A checkpoint exists only when the gate admitted it, and only a complete, sound one is restored."""

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch

from shardrel.canonical import json
from shardrel.checkpoint import commits
from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.load import Restored, load
from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.preflight import read_commit, read_manifest
from shardrel.checkpoint.save import Saved, save
from shardrel.data import ledger
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.gate.view import read_gate
from shardrel.records.checkpoint import CheckpointManifest, Cut, OrderParameters
from shardrel.store.layout import commit_key, object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import put_record
from shardrel.store.port import ObjectKey
from tests.support.faulty_store import Fault, FaultyStore, Rule
from tests.support.gates import DATASET, a_root, key
from tests.support.ranks import all_good, failures, run_ranks
from tests.support.runs import advance_tombstones, renew_run, started_run

RUN = "run-1"
ROOT = a_root("of a run")
ORDER = OrderParameters(function="block-splitmix64.v1", seed=3, block_shards=2, split=None)


def cut(step: int) -> Cut:
    return msgspec.structs.replace(ledger.genesis(ROOT), step=step, cursor=8 * step)


def state(step: int) -> dict[str, Any]:
    """Every kind of tensor, one of them large enough to be cut over the ranks, and non-tensor state."""
    generator = torch.Generator().manual_seed(step)
    return {
        "model": {
            "large": torch.randn(700, 401, generator=generator),
            "wide.bf16": torch.randn(3, 5, generator=generator).to(torch.bfloat16),
            "transposed": torch.randn(4, 6, generator=generator).t(),
            "scalar": torch.tensor(float(step)),
            "empty": torch.empty(0, 7),
            "flags": torch.tensor([True, False]),
            "complex": torch.randn(3, generator=generator).to(torch.complex64).conj(),
        },
        "optimizer": {"state": {0: {"step": torch.tensor(step)}}, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99)}]},
        "scheduler": {"last": step, "none": None},
    }


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    started_run(store, ROOT, RUN)
    return store


def save_on(store: Any, step: int, world_size: int = 1) -> list[Saved | BaseException]:
    return run_ranks(
        world_size,
        lambda group: save(
            group, store, state(step), dataset=DATASET, run=RUN, cut=cut(step), order=ORDER, signer=key("admin")
        ),
    )


def load_on(store: Any, world_size: int = 1, **expected: Any) -> list[Restored | BaseException | None]:
    wanted = Expected(**{"run_id": RUN, "root": ROOT, "order": ORDER, **expected})
    return run_ranks(
        world_size,
        lambda group: load(group, store, dataset=DATASET, expected=wanted, required=("model",), signer=key("admin")),
    )


def the_codes(results: list[Any]) -> set[ErrorCode]:
    """Codes over all ranks: one, when they failed alike."""
    return {failure.code for failure in failures(results)}


def damage(store: MemoryStore, key_of: str, change: Callable[[bytes], bytes | None]) -> None:
    """Change bytes behind the product's back; None removes them."""
    kept = store._versions.pop(ObjectKey(key_of))
    for one in kept:
        changed = change(one.data)
        if changed is not None:
            store._versions.setdefault(ObjectKey(key_of), []).append(dataclasses.replace(one, data=changed))


def manifest_of(store: MemoryStore, generation: int) -> CheckpointManifest:
    installed = read_commit(store, RUN, generation)
    assert installed is not None
    return read_manifest(store, installed.record)


def assert_equal_state(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    def compare(one: Any, other: Any) -> None:
        assert type(one) is type(other)
        if isinstance(other, torch.Tensor):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert torch.equal(one, other.resolve_conj())
        elif isinstance(other, dict):
            assert list(one) == list(other)
            for name in other:
                compare(one[name], other[name])
        elif isinstance(other, list | tuple):
            assert len(one) == len(other)
            for mine, theirs in zip(one, other, strict=True):
                compare(mine, theirs)
        else:
            assert one == other

    assert sorted(found) == sorted(wanted)
    for name in wanted:
        compare(found[name], wanted[name])


@pytest.mark.parametrize(("saved_by", "loaded_by"), [(1, 1), (2, 3), (3, 2), (4, 1)])
def test_a_state_comes_back_at_any_world_size(store: MemoryStore, saved_by: int, loaded_by: int) -> None:
    saved = all_good(save_on(store, 5, saved_by))
    assert len(set(saved)) == 1
    assert (saved[0].generation, saved[0].step) == (0, 5)
    for restored in all_good(load_on(store, loaded_by)):
        assert restored is not None
        assert (restored.generation, restored.cut, restored.world_size) == (0, cut(5), saved_by)
        assert_equal_state(restored.state, state(5))


def test_the_work_of_a_save_is_shared(store: MemoryStore) -> None:
    all_good(save_on(store, 5, 3))
    regions = [region for entry in manifest_of(store, 0).tensors for region in entry.regions]
    assert {region.rank for region in regions} == {0, 1, 2}


def test_a_run_without_a_checkpoint_restores_nothing(store: MemoryStore) -> None:
    assert all_good(load_on(store, 2)) == [None, None]
    assert read_gate(store, DATASET).body.runs[RUN].head is None


def test_generations_follow_each_other_and_the_newest_is_restored(store: MemoryStore) -> None:
    generations = [all_good(save_on(store, step))[0].generation for step in (1, 2, 3)]
    assert generations == [0, 1, 2]
    restored = all_good(load_on(store))[0]
    assert restored is not None
    assert (restored.generation, restored.cut.step, restored.passed_over) == (2, 3, ())


def test_an_unchanged_state_adds_no_tensor_object(store: MemoryStore) -> None:
    all_good(save_on(store, 1))
    before = {region.object.digest for entry in manifest_of(store, 0).tensors for region in entry.regions}
    all_good(save_on(store, 1))
    after = {region.object.digest for entry in manifest_of(store, 1).tensors for region in entry.regions}
    assert after == before


def test_ranks_that_hold_different_replicas_save_nothing(store: MemoryStore) -> None:
    results = run_ranks(
        3,
        lambda group: save(
            group,
            store,
            state(7 if group.rank == 2 else 5),
            dataset=DATASET,
            run=RUN,
            cut=cut(5),
            order=ORDER,
            signer=key("admin"),
        ),
    )
    assert the_codes(results) == {ErrorCode.CHECKPOINT_CUT}
    assert all(failure.context["ranks"] == ["2"] for failure in failures(results))
    assert read_commit(store, RUN, 0) is None


def test_ranks_at_different_steps_save_nothing(store: MemoryStore) -> None:
    results = run_ranks(
        2,
        lambda group: save(
            group, store, state(5), dataset=DATASET, run=RUN, cut=cut(5 + group.rank), order=ORDER, signer=key("admin")
        ),
    )
    assert the_codes(results) == {ErrorCode.CHECKPOINT_CUT}
    assert read_commit(store, RUN, 0) is None


def test_state_that_can_not_be_held_fails_every_rank_alike(store: MemoryStore) -> None:
    bad = {"model": {"f": object()}}
    results = run_ranks(
        2,
        lambda group: save(
            group,
            store,
            bad if group.rank == 1 else state(1),
            dataset=DATASET,
            run=RUN,
            cut=cut(1),
            order=None,
            signer=key("admin"),
        ),
    )
    assert the_codes(results) == {ErrorCode.CHECKPOINT_STATE_TYPE}
    assert all(failure.context["ranks"] == ["1"] for failure in failures(results))


@pytest.mark.parametrize(
    "tensor", [torch.zeros(2, 2).to_sparse(), torch.empty(2, device="meta"), torch.zeros((1,) * 13)], ids=str
)
def test_a_tensor_of_an_unknown_kind_is_refused(store: MemoryStore, tensor: torch.Tensor) -> None:
    results = run_ranks(
        1,
        lambda group: save(
            group, store, {"t": tensor}, dataset=DATASET, run=RUN, cut=cut(1), order=None, signer=key("admin")
        ),
    )
    assert the_codes(results) == {ErrorCode.CHECKPOINT_STATE_TYPE}


def test_a_closed_permit_refuses_the_save_and_names_the_fence(store: MemoryStore) -> None:
    all_good(save_on(store, 1))
    advance_tombstones(store, 1)
    results = save_on(store, 2, 2)
    assert the_codes(results) == {ErrorCode.PERMIT_CLOSED}
    assert all("tombstones" in failure.message for failure in failures(results))
    assert read_commit(store, RUN, 1) is None


def test_an_installed_record_is_helped_by_recovery(store: MemoryStore) -> None:
    crash_between_record_and_admission(store, step=4)
    restored = all_good(load_on(store, 2))[0]
    assert restored is not None
    assert (restored.generation, restored.cut.step, restored.helped) == (0, 4, True)
    assert all_good(load_on(store))[0].helped is False  # type: ignore[union-attr]


def test_an_installed_record_is_helped_by_the_next_save(store: MemoryStore) -> None:
    crash_between_record_and_admission(store, step=4)
    assert all_good(save_on(store, 6))[0].generation == 1
    assert manifest_of(store, 1).cut.step == 6


def test_a_void_record_is_admitted_after_the_permit_was_renewed(store: MemoryStore) -> None:
    all_good(save_on(store, 1))
    crash_between_record_and_admission(store, step=4)
    advance_tombstones(store, 1)
    void = all_good(load_on(store))[0]
    assert void is not None
    assert (void.generation, void.helped) == (0, False)
    renew_run(store, RUN)
    helped = all_good(load_on(store))[0]
    assert helped is not None
    assert (helped.generation, helped.cut.step, helped.helped) == (1, 4, True)


def crash_between_record_and_admission(store: MemoryStore, step: int) -> None:
    """Ends a save as a killed coordinator would: the commit record is there, the gate was not moved."""

    def die(_: str) -> None:
        raise KeyboardInterrupt

    crashing = FaultyStore(store, [Rule(operation="swap", prefix="gates/", fault=Fault.HOOK, hook=die)])
    with pytest.raises(KeyboardInterrupt):
        save(
            SoloGroup(),
            crashing,
            state(step),
            dataset=DATASET,
            run=RUN,
            cut=cut(step),
            order=ORDER,
            signer=key("admin"),
        )


def first_object(store: MemoryStore, generation: int) -> str:
    return object_key(manifest_of(store, generation).tensors[0].regions[0].object.digest)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: None, ErrorCode.CHECKPOINT_MISSING),
        (lambda data: data[:-1], ErrorCode.CHECKPOINT_BYTES),
        (lambda data: bytes([data[0] ^ 1]) + data[1:], ErrorCode.CHECKPOINT_BYTES),
    ],
    ids=["absent", "short", "flipped"],
)
@pytest.mark.parametrize("what", ["tensor", "manifest", "commit"])
def test_lost_or_damaged_bytes_refuse_the_only_generation(
    store: MemoryStore, change: Callable[[bytes], bytes | None], code: ErrorCode, what: str
) -> None:
    all_good(save_on(store, 1, 2))
    installed = read_commit(store, RUN, 0)
    assert installed is not None
    keys = {
        "tensor": first_object(store, 0),
        "manifest": object_key(installed.record.manifest.digest),
        "commit": commit_key(RUN, 0),
    }
    damage(store, keys[what], change)
    if what == "commit" and code == ErrorCode.CHECKPOINT_BYTES:
        # A commit record that no longer parses can't be told from one of a later version.
        code = ErrorCode.CHECKPOINT_SCHEMA
    assert the_codes(load_on(store, 2)) == {code}


@pytest.mark.parametrize("change", [lambda data: None, lambda data: b"x" * len(data)], ids=["absent", "changed"])
def test_an_older_complete_generation_is_restored_and_said_so(
    store: MemoryStore, change: Callable[[bytes], bytes | None]
) -> None:
    for step in (1, 2, 3):
        all_good(save_on(store, step))
    damage(store, first_object(store, 2), change)
    damage(store, first_object(store, 1), change)
    restored = all_good(load_on(store, 2))[0]
    assert restored is not None
    assert restored.generation == 0
    assert [generation for generation, _ in restored.passed_over] == [2, 1]
    assert_equal_state(restored.state, state(1))
    assert all_good(save_on(store, 9))[0].generation == 3


@pytest.mark.parametrize(
    "expected",
    [
        {"root": a_root("another")},
        {"order": OrderParameters(function="block-splitmix64.v1", seed=4, block_shards=2, split=None)},
    ],
    ids=["root", "order"],
)
def test_a_checkpoint_of_another_identity_is_refused(store: MemoryStore, expected: dict[str, Any]) -> None:
    all_good(save_on(store, 1))
    assert the_codes(load_on(store, 2, **expected)) == {ErrorCode.CHECKPOINT_IDENTITY}


def test_a_part_that_the_checkpoint_lacks_is_refused(store: MemoryStore) -> None:
    all_good(save_on(store, 1))
    results = run_ranks(
        1,
        lambda group: load(
            group, store, dataset=DATASET, expected=Expected(run_id=RUN), required=("ema",), signer=key("admin")
        ),
    )
    assert the_codes(results) == {ErrorCode.CHECKPOINT_MISSING}


def forge(store: MemoryStore, change: Callable[[CheckpointManifest], CheckpointManifest]) -> None:
    """Commit and admit a manifest that the product would not have committed."""
    all_good(save_on(store, 1, 2))
    installed = read_commit(store, RUN, 0)
    assert installed is not None
    manifest = msgspec.structs.replace(change(manifest_of(store, 0)), generation=1, attempt="forged")
    record = msgspec.structs.replace(
        installed.record,
        generation=1,
        parent=installed.digest,
        attempt="forged",
        operation_id="forged",
        manifest=put_record(store, manifest),
    )
    forged = commits.install(store, record)
    run = commits.read_run(store, DATASET, RUN)
    commits.admit(store, DATASET, forged, commits.require_permit(run), key("admin"))


def with_regions(manifest: CheckpointManifest, change: Callable[[list[Any]], list[Any]]) -> CheckpointManifest:
    """Change the regions of the tensor that is cut over both ranks; all regions are of the forged attempt."""
    entries = []
    for entry in manifest.tensors:
        regions = [msgspec.structs.replace(region, attempt="forged") for region in entry.regions]
        entries.append(msgspec.structs.replace(entry, regions=tuple(change(regions) if len(regions) == 2 else regions)))
    return msgspec.structs.replace(manifest, tensors=tuple(entries))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda regions: regions[:1], ErrorCode.CHECKPOINT_GAP),
        (lambda regions: [*regions, regions[0]], ErrorCode.CHECKPOINT_OVERLAP),
        (lambda regions: [msgspec.structs.replace(regions[0], step=0), regions[1]], ErrorCode.CHECKPOINT_CUT),
        (lambda regions: [msgspec.structs.replace(regions[0], attempt="late"), regions[1]], ErrorCode.CHECKPOINT_CUT),
        (lambda regions: [msgspec.structs.replace(regions[0], start=8), regions[1]], ErrorCode.CHECKPOINT_BYTES),
        (lambda regions: [msgspec.structs.replace(regions[0], elements=1), regions[1]], ErrorCode.CHECKPOINT_BYTES),
    ],
    ids=["gap", "overlap", "step", "attempt", "range", "elements"],
)
def test_an_admitted_but_unsound_manifest_is_passed_over(
    store: MemoryStore, change: Callable[[list[Any]], list[Any]], code: ErrorCode
) -> None:
    forge(store, lambda manifest: with_regions(manifest, change))
    restored = all_good(load_on(store))[0]
    assert restored is not None
    assert restored.passed_over == ((1, code),)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda manifest: {"run_id": "run-2"}, ErrorCode.CHECKPOINT_IDENTITY),
        (lambda manifest: {"required_state": ("model", "sampler")}, ErrorCode.CHECKPOINT_MISSING),
        (lambda manifest: {"state": {**manifest.state, "x": {"$": "pickle", "v": ""}}}, ErrorCode.CHECKPOINT_SCHEMA),
        (lambda manifest: {"tensors": manifest.tensors[1:]}, ErrorCode.CHECKPOINT_MISSING),
        (
            lambda manifest: {"tensors": (msgspec.structs.replace(manifest.tensors[0], dtype="float1"),)},
            ErrorCode.CHECKPOINT_SCHEMA,
        ),
    ],
    ids=["run", "required", "tag", "tensor", "dtype"],
)
def test_an_admitted_manifest_of_other_identity_state_or_schema_has_its_own_code(
    store: MemoryStore, change: Callable[[CheckpointManifest], dict[str, Any]], code: ErrorCode
) -> None:
    def changed(manifest: CheckpointManifest) -> CheckpointManifest:
        sound = with_regions(manifest, lambda regions: regions)
        return msgspec.structs.replace(sound, **change(sound))

    forge(store, changed)
    results = load_on(store)
    if code == ErrorCode.CHECKPOINT_MISSING:
        restored = all_good(results)[0]
        assert restored is not None
        assert restored.passed_over == ((1, code),)
    else:
        assert the_codes(results) == {code}


def test_a_run_that_the_gate_does_not_know_is_refused(store: MemoryStore) -> None:
    with pytest.raises(RunFailedError) as caught:
        save(SoloGroup(), store, state(1), dataset=DATASET, run="other", cut=cut(1), order=None, signer=key("admin"))
    assert caught.value.code == ErrorCode.GATE_NO_RUN


def test_canonical_commit_records_name_the_facts_of_the_gate(store: MemoryStore) -> None:
    all_good(save_on(store, 1, 2))
    stored = store.read(commit_key(RUN, 0), max_bytes=2**20)
    assert stored is not None
    body = read_gate(store, DATASET).body
    facts = json.decode(stored.data, dict)
    assert facts["permit"] == body.runs[RUN].permit
    assert (facts["tombstoneWatermark"], facts["benchmarkFence"], facts["worldSize"]) == (0, 0, 2)

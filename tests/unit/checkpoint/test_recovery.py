"""Recovery helps what was installed, and restores only what is complete and sound."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from shardrel.canonical import json
from shardrel.checkpoint import commits
from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.load import load
from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.preflight import read_commit
from shardrel.checkpoint.save import save
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.drills.ranks import run_ranks
from shardrel.errors import ErrorCode
from shardrel.records.checkpoint import CheckpointManifest, OrderParameters
from shardrel.store.layout import commit_key, object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import put_record
from tests.support.checkpoints import (
    ORDER,
    ROOT,
    RUN,
    assert_equal_state,
    cut,
    damage,
    load_on,
    manifest_of,
    save_on,
    state,
    the_codes,
)
from tests.support.gates import DATASET, a_root, key
from tests.support.ranks import all_good
from tests.support.runs import advance_tombstones, renew_run, started_run


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    started_run(store, ROOT, RUN)
    return store


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


@pytest.mark.parametrize("change", [lambda data: None, lambda data: b"x" + data[1:]], ids=["absent", "changed"])
def test_behind_a_lost_commit_record_the_gates_history_names_the_older_one(
    store: MemoryStore, change: Callable[[bytes], bytes | None]
) -> None:
    for step in (1, 2):
        all_good(save_on(store, step))
    damage(store, commit_key(RUN, 1), change)
    restored = all_good(load_on(store))[0]
    assert restored is not None
    assert (restored.generation, [generation for generation, _ in restored.passed_over]) == (0, [1])


def test_a_record_under_an_older_name_that_the_gate_never_admitted_is_not_restored(store: MemoryStore) -> None:
    for step in (1, 2):
        all_good(save_on(store, step))
    damage(store, commit_key(RUN, 1), lambda data: None)
    damage(store, commit_key(RUN, 0), lambda data: data.replace(b'"step":1', b'"step":9'))
    assert the_codes(load_on(store)) == {ErrorCode.CHECKPOINT_MISSING}


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (Rule(operation="swap", prefix="gates/", fault=Fault.UNKNOWN_BEFORE, times=None), ErrorCode.OUTCOME_SWAP),
        (Rule(operation="swap", prefix="gates/", fault=Fault.UNKNOWN_AFTER), ErrorCode.OUTCOME_SWAP),
        (Rule(operation="create", prefix="runs/", fault=Fault.UNKNOWN_BEFORE), ErrorCode.OUTCOME_CREATE),
        (Rule(operation="create", prefix="runs/", fault=Fault.UNKNOWN_AFTER), ErrorCode.OUTCOME_CREATE),
        (Rule(operation="create", prefix="objects/", fault=Fault.FAIL_AFTER), ErrorCode.STORE_UNAVAILABLE),
    ],
    ids=str,
)
def test_after_an_unknown_outcome_every_rank_stops_and_the_next_save_goes_on(
    store: MemoryStore, rule: Rule, code: ErrorCode
) -> None:
    all_good(save_on(store, 1))
    assert the_codes(save_on(FaultyStore(store, [rule]), 2, 2)) == {code}
    saved = all_good(save_on(store, 3, 2))[0]
    restored = all_good(load_on(store))[0]
    assert restored is not None
    assert (restored.generation, restored.cut.step, restored.passed_over) == (saved.generation, 3, ())


@pytest.mark.parametrize(
    "change", [{"root": a_root("another")}, {"run_id": "run-2"}, {"generation": 7}], ids=["root", "run", "generation"]
)
def test_a_record_of_something_else_under_the_next_name_is_not_helped(
    store: MemoryStore, change: dict[str, Any]
) -> None:
    all_good(save_on(store, 1))
    first = read_commit(store, RUN, 0)
    assert first is not None
    strange = msgspec.structs.replace(first.record, **{"generation": 1, "parent": first.digest, **change})
    store.create(commit_key(RUN, 1), json.encode(strange))
    restored = all_good(load_on(store))[0]
    assert restored is not None
    assert (restored.generation, restored.helped) == (0, False)
    assert the_codes(save_on(store, 2, 2)) == {ErrorCode.GATE_CHECKPOINT_ORDER}


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
        (lambda regions: [msgspec.structs.replace(regions[0], digest=ROOT), regions[1]], ErrorCode.CHECKPOINT_BYTES),
        (lambda regions: [msgspec.structs.replace(regions[0], rank=1), regions[1]], None),
        (
            lambda regions: [msgspec.structs.replace(regions[0], replicas=(1,)), regions[1]],
            ErrorCode.CHECKPOINT_REPLICA,
        ),
        (
            lambda regions: [msgspec.structs.replace(regions[0], replicas=(1, 0)), regions[1]],
            ErrorCode.CHECKPOINT_REPLICA,
        ),
        (
            lambda regions: [msgspec.structs.replace(regions[0], replicas=(0, 2)), regions[1]],
            ErrorCode.CHECKPOINT_REPLICA,
        ),
        (lambda regions: [msgspec.structs.replace(regions[0], replicas=()), regions[1]], ErrorCode.CHECKPOINT_REPLICA),
    ],
    ids=[
        "gap",
        "overlap",
        "step",
        "attempt",
        "range",
        "elements",
        "digest",
        "another owner that holds it",
        "owner that holds none",
        "holders out of order",
        "holder that is no rank",
        "no holder",
    ],
)
def test_an_admitted_but_unsound_manifest_is_passed_over(
    store: MemoryStore, change: Callable[[list[Any]], list[Any]], code: ErrorCode | None
) -> None:
    forge(store, lambda manifest: with_regions(manifest, change))
    restored = all_good(load_on(store))[0]
    assert restored is not None
    assert restored.passed_over == (() if code is None else ((1, code),))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda manifest: {"run_id": "run-2"}, ErrorCode.CHECKPOINT_IDENTITY),
        (lambda manifest: {"required_state": ("model", "sampler")}, ErrorCode.CHECKPOINT_MISSING),
        (lambda manifest: {"state": {**manifest.state, "x": {"$": "pickle", "v": ""}}}, ErrorCode.CHECKPOINT_SCHEMA),
        (lambda manifest: {"tensors": manifest.tensors[1:]}, ErrorCode.CHECKPOINT_MISSING),
        (lambda manifest: {"owners": {"model/large": 1}}, ErrorCode.CHECKPOINT_REPLICA),
        (lambda manifest: {"owners": {"scheduler": 2}}, ErrorCode.CHECKPOINT_REPLICA),
        (
            lambda manifest: {"tensors": (msgspec.structs.replace(manifest.tensors[0], dtype="float1"),)},
            ErrorCode.CHECKPOINT_SCHEMA,
        ),
    ],
    ids=["run", "required", "tag", "tensor", "regions of others than the owner", "owner that is no rank", "dtype"],
)
def test_an_admitted_manifest_of_other_identity_state_or_schema_has_its_own_code(
    store: MemoryStore, change: Callable[[CheckpointManifest], dict[str, Any]], code: ErrorCode
) -> None:
    def changed(manifest: CheckpointManifest) -> CheckpointManifest:
        sound = with_regions(manifest, lambda regions: regions)
        return msgspec.structs.replace(sound, **change(sound))

    forge(store, changed)
    results = load_on(store)
    if code in (ErrorCode.CHECKPOINT_MISSING, ErrorCode.CHECKPOINT_REPLICA):
        restored = all_good(results)[0]
        assert restored is not None
        assert restored.passed_over == ((1, code),)
    else:
        assert the_codes(results) == {code}

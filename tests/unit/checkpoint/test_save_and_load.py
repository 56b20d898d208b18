"""A checkpoint exists only when the gate admitted it, and comes back whole at any world size."""

import pytest
import torch

from shardrel.canonical import json
from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.preflight import read_commit
from shardrel.checkpoint.save import save
from shardrel.drills.ranks import run_ranks
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.gate.view import read_gate
from shardrel.store.layout import commit_key
from shardrel.store.memory import MemoryStore
from tests.support.checkpoints import (
    ORDER,
    ROOT,
    RUN,
    assert_equal_state,
    cut,
    load_on,
    manifest_of,
    save_on,
    state,
    the_codes,
)
from tests.support.gates import DATASET, key
from tests.support.ranks import all_good, failures
from tests.support.runs import advance_tombstones, started_run


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    started_run(store, ROOT, RUN)
    return store


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
    assert the_codes(results) == {ErrorCode.CHECKPOINT_REPLICA}
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

"""A second save writes what has changed, and names the rest again."""

from typing import Any

import msgspec
import pytest
import torch

from shardrel.checkpoint.coverage import Box, Tiled, coverage
from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.save import save
from shardrel.checkpoint.writing import Kept
from shardrel.checkpoint.writing import cut as cut_box
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.errors import ErrorCode, ShardrelError
from shardrel.store.memory import MemoryStore
from tests.support.checkpoints import ORDER, ROOT, RUN, Sizes, assert_equal_state, cut, load_on, manifest_of, save_on
from tests.support.gates import DATASET, key
from tests.support.ranks import all_good
from tests.support.runs import advance_tombstones, renew_run, started_run


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    started_run(store, ROOT, RUN)
    return store


def a_state(changed: float) -> dict[str, Any]:
    large = {f"w{i}": torch.full((600, 600), float(i)) for i in range(5)}
    large["w3"] += changed
    return {"model": large, "step": 1}


def save_it(store: Any, state: dict[str, Any], step: int, kept: Kept) -> None:
    save(
        SoloGroup(), store, state, dataset=DATASET, run=RUN, cut=cut(step), order=ORDER, signer=key("admin"), kept=kept
    )


def large_writes(store: MemoryStore, state: dict[str, Any], step: int, kept: Kept) -> int:
    recording = Sizes(store)
    save_it(recording, state, step, kept)
    return sum(size > 1_000_000 for size in recording.sizes)


def test_only_what_has_changed_is_written(store: MemoryStore) -> None:
    kept = Kept()
    assert large_writes(store, a_state(0), 1, kept) == 5
    assert large_writes(store, a_state(0.5), 2, kept) == 1
    assert large_writes(store, a_state(0.5), 3, kept) == 0
    restored = all_good(load_on(store))[0]
    assert restored is not None
    assert_equal_state(restored.state, a_state(0.5))


def test_what_a_refused_save_wrote_is_not_relied_on(store: MemoryStore) -> None:
    kept = Kept()
    save_it(store, a_state(0), 1, kept)
    advance_tombstones(store, 1)
    with pytest.raises(ShardrelError):
        save_it(store, a_state(0.5), 2, kept)
    renew_run(store, RUN)
    assert large_writes(store, a_state(0.5), 3, kept) == 1


def test_nothing_is_relied_on_when_another_checkpoint_is_the_head(store: MemoryStore) -> None:
    kept = Kept()
    save_it(store, a_state(0), 1, kept)
    all_good(save_on(store, 2))
    assert large_writes(store, a_state(0), 3, kept) == 5


@pytest.mark.parametrize("fault", [Fault.UNKNOWN_BEFORE, Fault.UNKNOWN_AFTER], ids=str)
def test_after_an_unknown_outcome_nothing_is_relied_on_that_the_head_may_not_hold(
    store: MemoryStore, fault: Fault
) -> None:
    kept = Kept()
    save_it(store, a_state(0), 1, kept)
    rule = Rule(operation="swap", prefix="gates/", fault=fault, times=None if fault == Fault.UNKNOWN_BEFORE else 1)
    with pytest.raises(ShardrelError) as raised:
        save_it(FaultyStore(store, [rule]), a_state(0.5), 2, kept)
    assert raised.value.code == ErrorCode.OUTCOME_SWAP
    # The record is helped, so its checkpoint is the head, and this process's knowledge is of the one before.
    assert large_writes(store, a_state(0), 3, kept) == 5
    assert [len({region.object.digest for region in e.regions}) for e in manifest_of(store, 2).tensors] == [1] * 5


def test_the_manifest_is_the_one_of_a_save_that_knows_nothing(store: MemoryStore) -> None:
    kept = Kept()
    save_it(store, a_state(0), 1, kept)
    save_it(store, a_state(0.5), 2, kept)
    save_it(store, a_state(0.5), 2, Kept())
    with_it, without = (manifest_of(store, generation) for generation in (1, 2))
    same = [
        [msgspec.structs.replace(region, attempt="a") for e in one.tensors for region in e.regions]
        for one in (with_it, without)
    ]
    assert same[0] == same[1]
    assert with_it.state == without.state


@pytest.mark.parametrize(
    ("sizes", "limit"), [((7, 5), 40), ((3, 1000), 100), ((1, 4, 9), 16), ((2, 3), 1), ((5,), 8), ((), 1)]
)
def test_pieces_tile_their_box_and_are_small_enough(sizes: tuple[int, ...], limit: int) -> None:
    parts = cut_box(Box((0,) * len(sizes), sizes), 4, limit)
    assert coverage(sizes, parts) == Tiled()
    for part in parts:
        elements = torch.Size(part.sizes).numel()
        assert elements * 4 <= max(limit, 4)

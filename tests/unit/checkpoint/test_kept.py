"""A second save writes what has changed, and names the rest again."""

from typing import Any

import pytest
import torch

from shardrel.checkpoint.coverage import Box, Tiled, coverage
from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.save import save
from shardrel.checkpoint.writing import Kept
from shardrel.checkpoint.writing import cut as cut_box
from shardrel.errors import ShardrelError
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.memory import MemoryStore
from shardrel.store.port import CreateOutcome, ObjectKey
from tests.support.checkpoints import ORDER, ROOT, RUN, assert_equal_state, cut, load_on
from tests.support.gates import DATASET, key
from tests.support.ranks import all_good
from tests.support.runs import advance_tombstones, renew_run, started_run


class Sizes(ForwardingStore):
    """Remembers how many bytes each create had."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.sizes: list[int] = []

    def create(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        self.sizes.append(len(data))
        return super().create(key, data)


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


@pytest.mark.parametrize(
    ("sizes", "limit"), [((7, 5), 40), ((3, 1000), 100), ((1, 4, 9), 16), ((2, 3), 1), ((5,), 8), ((), 1)]
)
def test_pieces_tile_their_box_and_are_small_enough(sizes: tuple[int, ...], limit: int) -> None:
    parts = cut_box(Box((0,) * len(sizes), sizes), 4, limit)
    assert coverage(sizes, parts) == Tiled()
    for part in parts:
        elements = torch.Size(part.sizes).numel()
        assert elements * 4 <= max(limit, 4)

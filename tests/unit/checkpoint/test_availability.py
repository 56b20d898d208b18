"""Completeness is not a majority: five indispensable pieces, four of them there, is nothing to restore from."""

import pytest
import torch

from shardrel.checkpoint.load import load
from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.recovery import recover
from shardrel.checkpoint.save import save
from shardrel.drills.ranks import run_ranks
from shardrel.errors import ErrorCode, ShardrelError
from shardrel.store.layout import object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get
from shardrel.store.port import ObjectKey
from tests.support.checkpoints import ORDER, ROOT, RUN, assert_equal_state, cut, damage, load_on, manifest_of, the_codes
from tests.support.gates import DATASET, key
from tests.support.ranks import all_good
from tests.support.runs import started_run

PIECES = 5
STATE = {"model": {"w": torch.arange(1_500_000, dtype=torch.float32).reshape(PIECES, -1)}}


@pytest.fixture
def store() -> MemoryStore:
    """A checkpoint of one tensor in five pieces, of five ranks, none of which has another's."""
    store = MemoryStore()
    started_run(store, ROOT, RUN)
    all_good(
        run_ranks(
            PIECES,
            lambda group: save(
                group, store, STATE, dataset=DATASET, run=RUN, cut=cut(1), order=ORDER, signer=key("admin")
            ),
        )
    )
    return store


def pieces(store: MemoryStore) -> list[ObjectKey]:
    [entry] = manifest_of(store, 0).tensors
    return [object_key(region.object.digest) for region in entry.regions]


def test_five_of_five_restore(store: MemoryStore) -> None:
    assert len(set(pieces(store))) == PIECES
    restored = all_good(load_on(store))[0]
    assert restored is not None
    assert_equal_state(restored.state, STATE)


@pytest.mark.parametrize("lost", range(PIECES))
def test_four_of_five_are_a_majority_and_are_refused(store: MemoryStore, lost: int) -> None:
    damage(store, pieces(store)[lost], lambda _: None)
    there = sum(store.read(piece, max_bytes=1 << 24) is not None for piece in pieces(store))
    assert there == 4 > PIECES // 2
    results = load_on(store, 2)
    assert the_codes(results) == {ErrorCode.CHECKPOINT_MISSING}


def test_a_declared_replica_has_the_fifth(store: MemoryStore) -> None:
    copy = MemoryStore()
    descriptors = [region.object for region in manifest_of(store, 0).tensors[0].regions]
    for one in descriptors[2:3]:
        copy.create(object_key(one.digest), get(store, one))
    damage(store, pieces(store)[2], lambda _: None)
    [restored] = all_good(
        run_ranks(
            1,
            lambda group: load(
                group,
                store,
                dataset=DATASET,
                expected=Expected(run_id=RUN),
                required=(),
                signer=key("admin"),
                replicas=[MemoryStore(), copy],
            ),
        )
    )
    assert restored is not None
    assert restored.passed_over == ()
    assert_equal_state(restored.state, STATE)


def test_a_replica_with_other_bytes_is_no_replica(store: MemoryStore) -> None:
    copy = MemoryStore()
    lost = manifest_of(store, 0).tensors[0].regions[2].object
    copy.create(object_key(lost.digest), b"\1" * lost.size)
    damage(store, object_key(lost.digest), lambda _: None)
    with pytest.raises(ShardrelError) as raised:
        recover(store, DATASET, Expected(run_id=RUN), key("admin"), replicas=[copy])
    assert raised.value.code == ErrorCode.CHECKPOINT_MISSING

"""What several ranks hold is one thing by a declared rule: equal copies, or the copy of a declared owner."""

from pathlib import Path
from typing import Any

import pytest
import torch

from shardrel.canonical import json
from shardrel.checkpoint.preflight import read_commit
from shardrel.checkpoint.replicas import check_owners, owned_parts, owner_of, with_parts
from shardrel.checkpoint.save import Saved, save
from shardrel.checkpoint.state_tree import flatten
from shardrel.drills.ranks import run_ranks
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.store.local import LocalStore
from shardrel.store.memory import MemoryStore
from tests.support.checkpoints import ORDER, ROOT, RUN, assert_equal_state, cut, manifest_of, restored_of, the_codes
from tests.support.gates import DATASET, key
from tests.support.gloo import run_gloo
from tests.support.ranks import all_good, failures
from tests.support.runs import started_run

LARGE = torch.arange(300_000, dtype=torch.float32)


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    started_run(store, ROOT, RUN)
    return store


def state_of(rank: int) -> dict[str, Any]:
    """Equal on all ranks, but for statistics, a counter and a large cache."""
    return {
        "model": {"w": torch.ones(3), "norm": {"mean": torch.full((2,), float(rank)), "seen": rank}},
        "random": [{"seed": rank}, "x"],
        "cache": LARGE + rank,
        "step": 5,
    }


def save_with(store: MemoryStore, owners: dict[str, int], world_size: int = 3) -> list[Saved | BaseException]:
    return run_ranks(
        world_size,
        lambda group: save(
            group,
            store,
            state_of(group.rank),
            dataset=DATASET,
            run=RUN,
            cut=cut(1),
            order=ORDER,
            signer=key("admin"),
            owners=owners,
        ),
    )


def test_copies_that_differ_are_refused_with_the_pieces_and_the_ranks(store: MemoryStore) -> None:
    results = save_with(store, {"cache": 0})
    assert the_codes(results) == {ErrorCode.CHECKPOINT_REPLICA}
    for failure in failures(results):
        assert failure.context["ranks"] == ["1", "2"]
        assert failure.context["pieces"] == ["model/norm/mean", "model/norm/seen", "random/0/seed"]
    assert read_commit(store, RUN, 0) is None


def test_the_declared_owners_copies_are_the_checkpoints(store: MemoryStore) -> None:
    owners = {"model/norm": 2, "random": 1, "cache": 0}
    all_good(save_with(store, owners))
    wanted = state_of(0)
    wanted["model"]["norm"] = state_of(2)["model"]["norm"]
    wanted["random"] = state_of(1)["random"]
    assert_equal_state(restored_of(store).state, wanted)
    manifest = manifest_of(store, 0)
    assert manifest.owners == owners
    held = {e.name: [(r.rank, r.replicas) for r in e.regions] for e in manifest.tensors}
    assert held["cache"] == [(0, (0, 1, 2))]
    assert held["model/norm/mean"] == [(2, (0, 1, 2))]


def test_a_manifest_without_a_declaration_says_nothing_of_it(store: MemoryStore) -> None:
    all_good(save_with(store, {}, world_size=1))
    assert manifest_of(store, 0).owners is None
    assert b'"owners"' not in json.encode(manifest_of(store, 0))


@pytest.mark.parametrize("owners", [{"cache": 3}, {"cache": -1}, {"absent": 0}, {"model": 0, "model/norm": 1}], ids=str)
def test_a_declaration_that_makes_no_sense_is_refused(store: MemoryStore, owners: dict[str, int]) -> None:
    assert the_codes(save_with(store, owners)) == {ErrorCode.INPUT_INVALID}
    assert read_commit(store, RUN, 0) is None


def test_sharded_states_have_the_same_rules(tmp_path: Path) -> None:
    started_run(LocalStore(tmp_path / "store"), ROOT, RUN)
    (tmp_path / "key.pem").write_bytes(key("admin").to_pem())
    run_gloo("tests.support.replica_jobs:owners", 3, tmp_path)


def test_paths_are_whole_keys() -> None:
    owners = {"a/b": 1, "c~1d": 2}
    assert [owner_of(path, owners) for path in ("a/b", "a/b/c", "a/bc", "a", "c~1d/x", "c/d")] == [
        1,
        1,
        None,
        None,
        2,
        None,
    ]
    with pytest.raises(InvalidInputError):
        check_owners({"a": 0, "a/b": 1}, 2)


def test_parts_are_taken_out_and_put_in_by_path() -> None:
    trees, _ = flatten({"a/b": {True: [1, (2, {"x": 3})], 2**60: None}, "c": 4}, lambda _: False)
    paths = {"a~1b/True/1/1/x": 0, f"a~1b/{2**60}": 0, "c": 0}
    assert owned_parts(trees, paths) == {"a~1b/True/1/1/x": 3, f"a~1b/{2**60}": None, "c": 4}
    changed, _ = flatten({"a/b": {True: [1, (2, {"x": "new"})], 2**60: None}, "c": 4}, lambda _: False)
    assert with_parts(trees, {"a~1b/True/1/1/x": "new"}) == changed

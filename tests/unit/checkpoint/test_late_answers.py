"""What a rank says of an abandoned attempt completes no other."""

from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.storage import WriteResult

from shardrel.checkpoint.preflight import read_commit
from shardrel.checkpoint.sharded_plan import TreeSavePlanner
from shardrel.checkpoint.sharded_writer import CommitWriter, Purpose, committed
from shardrel.errors import ErrorCode, ShardrelError
from shardrel.store.memory import MemoryStore
from tests.support.checkpoints import ORDER, ROOT, RUN, cut
from tests.support.gates import DATASET, key
from tests.support.runs import started_run

STATE = {"w": torch.ones(4), "step": 1}


def an_attempt(store: MemoryStore) -> tuple[CommitWriter, Metadata, list[WriteResult]]:
    """One rank's part of a save, up to what it tells the coordinator."""
    writer = CommitWriter(store, Purpose(dataset=DATASET, run=RUN, cut=cut(1), order=ORDER, signer=key("admin")))
    planner = TreeSavePlanner()
    planner.set_up_planner(STATE, None, True)
    plans, metadata = planner.create_global_plan([writer.prepare_local_plan(planner.create_local_plan())])
    [plan] = writer.prepare_global_plan(plans)
    told: Any = writer.write_data(planner.finish_plan(plan), planner).wait()
    return writer, metadata, told


def test_an_answer_of_an_abandoned_attempt_is_refused(store: MemoryStore) -> None:
    _, _, late = an_attempt(store)
    writer, metadata, told = an_attempt(store)
    for answers in (late, [*told[:1], *late[1:]]):
        with pytest.raises(ShardrelError) as raised:
            writer.finish(metadata, [answers])
        assert raised.value.code == ErrorCode.CHECKPOINT_CUT
    assert read_commit(store, RUN, 0) is None
    writer.finish(metadata, [told])
    assert committed(metadata).generation == 0


def test_of_two_attempts_at_one_generation_one_is_admitted(store: MemoryStore) -> None:
    first, second = an_attempt(store), an_attempt(store)
    first[0].finish(first[1], [first[2]])
    with pytest.raises(ShardrelError) as raised:
        second[0].finish(second[1], [second[2]])
    assert raised.value.code == ErrorCode.GATE_CHECKPOINT_ORDER


def test_an_answer_that_is_missing_leaves_a_gap(store: MemoryStore) -> None:
    writer, metadata, told = an_attempt(store)
    with pytest.raises(ShardrelError) as raised:
        writer.finish(metadata, [[one for one in told if one.index.fqn != "w"]])
    assert raised.value.code == ErrorCode.CHECKPOINT_GAP


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    started_run(store, ROOT, RUN)
    return store

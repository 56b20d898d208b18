"""A sharded save checks that the ranks' parts tile each tensor before anything is written."""

import dataclasses
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, WriteItem, WriteItemType

from shardrel.checkpoint.sharded_plan import TreeSavePlanner
from shardrel.errors import ErrorCode, ShardrelError


def plans_of(*boxes: tuple[int, int]) -> tuple[TreeSavePlanner, list[SavePlan]]:
    """A plan a rank, each with rows of a tensor of six."""
    planner = TreeSavePlanner()
    planner.set_up_planner({"w": torch.ones(6, 2)}, None, True)
    plan = planner.create_local_plan()
    return planner, [dataclasses.replace(plan, items=[_part(plan.items[0], *box)]) for box in boxes]


def _part(item: WriteItem, first: int, rows: int) -> WriteItem:
    assert item.tensor_data is not None
    chunk = ChunkStorageMetadata(offsets=torch.Size([first, 0]), sizes=torch.Size([rows, 2]))
    return dataclasses.replace(
        item,
        type=WriteItemType.SHARD,
        index=MetadataIndex("w", [first, 0]),
        tensor_data=dataclasses.replace(item.tensor_data, chunk=chunk),
    )


@pytest.mark.parametrize(
    ("boxes", "code"),
    [
        ([(0, 2), (4, 2)], ErrorCode.CHECKPOINT_GAP),
        ([(0, 2), (2, 2)], ErrorCode.CHECKPOINT_GAP),
        ([(0, 4), (2, 4)], ErrorCode.CHECKPOINT_OVERLAP),
        ([(0, 6), (1, 2)], ErrorCode.CHECKPOINT_OVERLAP),
        ([(0, 3), (3, 4)], ErrorCode.CHECKPOINT_OVERLAP),
    ],
)
def test_parts_that_do_not_tile_are_refused(boxes: list[tuple[int, int]], code: ErrorCode) -> None:
    planner, plans = plans_of(*boxes)
    with pytest.raises(ShardrelError) as raised:
        planner.create_global_plan(plans)
    assert raised.value.code == code


def test_parts_that_tile_are_planned_with_copies_once() -> None:
    planner, plans = plans_of((0, 3), (3, 3), (3, 3))
    planned: Any = planner.create_global_plan(plans)[0]
    assert sorted(len(plan.items) for plan in planned) == [0, 1, 1]
    holders = [plan.planner_data[item.index] for plan in planned for item in plan.items]
    assert sorted(holders) == [(0,), (1, 2)]

"""What the ranks do in tests of imports: torch's own saves at one world size, loads of what was imported at others."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

from shardrel.checkpoint.import_dcp import import_dcp
from shardrel.checkpoint.import_safetensors import import_safetensors_folder
from shardrel.checkpoint.imported import Target, Wanted
from shardrel.store.local import LocalStore
from tests.support.checkpoints import target
from tests.support.sharded_jobs import (
    Seats,
    assert_same,
    built,
    load_into,
    local,
    odd_state,
    only,
    runner,
    seats,
    state_of,
    train,
    whole,
)


def imports(rank: int, world: int, folder: Path) -> None:
    """Two and three ranks save with torch alone; one process imports; the other sizes load the same bits."""
    sized = seats(world)
    for size in (2, 3):
        _a_training_state(rank, folder, sized, size)
        _a_sharded_model(rank, folder, sized, size)


def _a_training_state(rank: int, folder: Path, sized: dict[int, Seats], size: int) -> None:
    reference: list[Any] = [None]
    home = folder / f"dcp-{size}"
    kind = "fsdp" if size == 3 else "tp"
    with only(rank, size) as mine:
        if mine:
            model, optimizer = built(kind, sized[size], seed=size)
            train(model, optimizer, 2)
            state = {**state_of(model, optimizer, size), "odd": odd_state(sized[size].line, size)}
            reference = [whole({name: value for name, value in state.items() if name != "odd"})]
            dcp_save(state, checkpoint_id=home / "files", process_group=sized[size].group)
            if rank == 0:
                import_dcp(_target(home, folder), home / "files", Wanted())
    dist.broadcast_object_list(reference)
    for loaded_by in (seat for seat in sized.values() if seat.size != size):
        with only(rank, loaded_by.size) as mine:
            if mine:
                model, optimizer = built("fsdp", loaded_by, seed=100)
                state = {**state_of(model, optimizer, -1), "odd": odd_state(loaded_by.line, 50)}
                assert load_into(home, state, loaded_by.group, key_of=folder) is not None
                assert_same(local(state.pop("odd")), local(odd_state(loaded_by.line, size)))
                assert_same(whole(state), reference[0])


def _a_sharded_model(rank: int, folder: Path, sized: dict[int, Seats], size: int) -> None:
    """The layout of safetensors files, each with its rank's pieces."""
    home = folder / f"hf-{size}"
    names = ("rows bf16", "rows strided", "rows int64", "columns", "copy")
    with only(rank, size) as mine:
        if mine:
            writer = HuggingFaceStorageWriter(str(home / "files"), save_distributed=True)
            dcp_save(
                _chosen(odd_state(sized[size].line, size), names),
                storage_writer=writer,
                process_group=sized[size].group,
            )
            if rank == 0:
                import_safetensors_folder(_target(home, folder), home / "files", Wanted())
    for loaded_by in (seat for seat in sized.values() if seat.size != size):
        with only(rank, loaded_by.size) as mine:
            if mine:
                state = {"model": _chosen(odd_state(loaded_by.line, 50), names)}
                assert load_into(home, state, loaded_by.group, key_of=folder) is not None
                assert_same(local(state["model"]), local(_chosen(odd_state(loaded_by.line, size), names)))


def _target(home: Path, folder: Path) -> Target:
    signer = runner(folder)
    assert signer is not None
    return replace(target(LocalStore(home / "store")), signer=signer)


def _chosen(state: dict[str, Any], names: tuple[str, ...]) -> dict[str, torch.Tensor]:
    flat = {**state, **state["rows"]}
    return {name: flat[name] for name in names}

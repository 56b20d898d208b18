"""What the ranks do in tests of sharded checkpoints: models under every kind of parallelism, saved and loaded."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.preflight import read_commit, read_manifest
from shardrel.checkpoint.save import Saved
from shardrel.checkpoint.sharded import Loaded, in_our_words, load_sharded, save_sharded
from shardrel.checkpoint.sharded_writer import CommitWriter, Purpose
from shardrel.errors import ShardrelError
from shardrel.store.layout import object_key
from shardrel.store.local import LocalStore
from shardrel.trust.keys import SigningKey, from_pem
from tests.support.checkpoints import ORDER, RUN, cut
from tests.support.gates import DATASET

KINDS = ("ddp", "fsdp", "tp", "fsdp-tp")


def runner(folder: Path, group: dist.ProcessGroup | None = None) -> SigningKey | None:
    """The runner's key, on the coordinator."""
    return from_pem("admin", (folder / "key.pem").read_bytes()) if dist.get_rank(group) == 0 else None


def purpose(folder: Path, step: int, group: dist.ProcessGroup | None = None) -> Purpose:
    return Purpose(dataset=DATASET, run=RUN, cut=cut(step), order=ORDER, signer=runner(folder, group))


def save_at(folder: Path, state: dict[str, Any], step: int, group: dist.ProcessGroup | None = None) -> Saved:
    return save_sharded(LocalStore(folder / "store"), state, purpose(folder, step, group), process_group=group)


def load_into(
    folder: Path, state: dict[str, Any], group: dist.ProcessGroup | None = None, key_of: Path | None = None
) -> Loaded | None:
    return load_sharded(
        LocalStore(folder / "store"),
        state,
        dataset=DATASET,
        expected=Expected(run_id=RUN, order=ORDER),
        signer=runner(key_of or folder, group),
        process_group=group,
    )


class Net(nn.Module):
    """Sizes that most world sizes don't divide (the hidden one is divided by all, as tensor parallelism asks); one buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(7, 60)
        self.down = nn.Linear(60, 5, bias=False)
        self.norm = nn.LayerNorm(5)
        self.register_buffer("seen", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.norm(self.down(torch.relu(self.up(x))))
        return out


def built(kind: str, seat: "Seats", seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model of a kind on the first ranks, with its optimizer."""
    torch.manual_seed(seed)
    model = Net()
    halves = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    if kind == "fsdp":
        fully_shard(model.up, mesh=seat.line)
        fully_shard(model, mesh=seat.line)
    elif kind == "tp":
        parallelize_module(model, seat.line, halves)
    elif kind == "fsdp-tp":
        assert seat.square is not None
        parallelize_module(model, seat.square["tp"], halves)
        fully_shard(model, mesh=seat.square["dp"])
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    """The same batch on every rank, so that replicas stay replicas."""
    for step in range(steps):
        x = torch.randn(4, 7, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    model.get_buffer("seen").add_(steps)


def whole(state: Any) -> Any:
    """A state with every DTensor gathered."""
    if isinstance(state, DTensor):
        return state.full_tensor().clone()
    if isinstance(state, torch.Tensor):
        return state.clone()
    if isinstance(state, dict):
        return {name: whole(value) for name, value in state.items()}
    return [whole(value) for value in state] if isinstance(state, list) else state


def assert_same(one: Any, other: Any, path: str = "") -> None:
    """Bit for bit."""
    if isinstance(other, torch.Tensor):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), path
        assert torch.equal(octets(one), octets(other)), path
    elif isinstance(other, dict):
        assert set(one) == set(other), path
        for name in other:
            assert_same(one[name], other[name], f"{path}/{name}")
    elif isinstance(other, list | tuple):
        assert len(one) == len(other), path
        for index, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            assert_same(mine, theirs, f"{path}/{index}")
    else:
        assert one == other, path


def octets(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.resolve_conj().contiguous().reshape(-1).view(torch.uint8)


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> dict[str, Any]:
    """All that training needs."""
    taken: Any = get_state_dict(model, optimizer)
    parts, optimizer_parts = taken
    return {
        "model": parts,
        "optimizer": optimizer_parts,
        "ema": {name: value.detach() * 0.5 for name, value in parts.items() if value.is_floating_point()},
        "scaler": {"scale": 65536.0, "growth_tracker": step},
        "random": {"cpu": torch.get_rng_state()},
        "scheduler": {"last_epoch": step, "base_lrs": [0.01], "none": None, "nested": [{"a": (1, 2.5)}]},
    }


@dataclass(frozen=True)
class Seats:
    """The first ranks, as a group and as meshes."""

    size: int
    group: dist.ProcessGroup
    line: DeviceMesh
    square: DeviceMesh | None

    @property
    def kinds(self) -> tuple[str, ...]:
        return KINDS if self.square is not None else KINDS[:3]


def seats(world: int) -> dict[int, Seats]:
    """Of every size; groups and meshes are made by all ranks together."""
    return {size: _seats(size) for size in range(1, world + 1)}


def _seats(size: int) -> Seats:
    square = torch.arange(size).reshape(2, -1) if size in (4, 6) else None
    return Seats(
        size=size,
        group=dist.new_group(list(range(size))),
        line=DeviceMesh("cpu", torch.arange(size)),
        square=None if square is None else DeviceMesh("cpu", square, mesh_dim_names=("dp", "tp")),
    )


@contextmanager
def only(rank: int, size: int) -> Iterator[bool]:
    """Whether this rank takes part; nobody goes on before all have done."""
    yield rank < size
    dist.barrier()


def every_pair(rank: int, world: int, folder: Path) -> None:
    """Every size and kind saves, every size loads."""
    sized = seats(world)
    pairs(rank, folder, sized, [(seat, kind) for seat in sized.values() for kind in seat.kinds])


def sample(rank: int, world: int, folder: Path) -> None:
    """Every size saves one kind, every size loads; then odd tensors."""
    sized = seats(world)
    savers = [(sized[size], kind) for size, kind in zip(sized, KINDS, strict=False)]
    pairs(rank, folder, sized, savers)
    odd_tensors(rank, folder, sized, step=len(savers) + 1)


def pairs(rank: int, folder: Path, sized: dict[int, Seats], savers: list[tuple[Seats, str]]) -> None:
    """Train and save, load at each size, and compare with the state that was saved."""
    for step, (saved_by, kind) in enumerate(savers, 1):
        reference: list[Any] = [None]
        with only(rank, saved_by.size) as mine:
            if mine:
                model, optimizer = built(kind, saved_by, seed=step)
                train(model, optimizer, 2)
                state = state_of(model, optimizer, step)
                reference = [whole(state)]
                saved = save_at(folder, state, step, saved_by.group)
                assert (saved.step, saved.generation) == (step, step - 1)
        dist.broadcast_object_list(reference)
        for loaded_by in sized.values():
            with only(rank, loaded_by.size) as mine:
                if mine:
                    _load_and_compare(folder, loaded_by, saved_by.size, step, reference[0])


def _load_and_compare(folder: Path, seat: Seats, saved_by: int, step: int, reference: dict[str, Any]) -> None:
    model, optimizer = built(seat.kinds[step % len(seat.kinds)], seat, seed=100 + step)
    state = state_of(model, optimizer, -1)
    state["random"]["cpu"] = torch.zeros_like(state["random"]["cpu"])
    loaded = load_into(folder, state, seat.group)
    assert loaded is not None
    assert (loaded.cut.step, loaded.world_size, loaded.passed_over) == (step, saved_by, ())
    assert_same(whole(state), reference)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    assert_same(whole(state_of(model, optimizer, step))["optimizer"], reference["optimizer"])


def odd_state(mesh: DeviceMesh, seed: int) -> dict[str, Any]:
    """Tensors of every kind, sharded along each dimension, replicated and plain."""
    generator = torch.Generator().manual_seed(seed)
    base = torch.randn(6, 10, generator=generator)
    plain = {
        "scalar": base[0, 0].clone(),
        "empty": torch.empty(0, 7),
        "bf16": base.to(torch.bfloat16),
        "fp8": base.to(torch.float8_e4m3fn),
        "complex": base[0].to(torch.complex64).conj(),
        "transposed": base.t(),
        "strided": base[::2, 1::3],
        "shared": base[1:3],
        "bool": base > 0,
        "int64": torch.arange(5),
    }
    rows = {f"rows {name}": placed(value, mesh, Shard(0)) for name, value in plain.items() if value.ndim}
    return {
        "plain": plain,
        "rows": rows,
        "columns": placed(base, mesh, Shard(1)),
        "copy": placed(base, mesh, Replicate()),
    }


def placed(value: torch.Tensor, mesh: DeviceMesh, placement: Placement) -> DTensor:
    """A DTensor without collectives, which gloo doesn't have for every element type."""
    shape, offsets = compute_local_shape_and_global_offset(value.shape, mesh, [placement])
    local = value[tuple(slice(o, o + n) for o, n in zip(offsets, shape, strict=True))]
    return DTensor.from_local(
        local, mesh, [placement], run_check=False, shape=value.shape, stride=value.contiguous().stride()
    )


def local(state: Any) -> Any:
    """What this rank has of every tensor."""
    if isinstance(state, DTensor):
        return state.to_local()
    return {name: local(value) for name, value in state.items()} if isinstance(state, dict) else state


def odd_tensors(rank: int, folder: Path, sized: dict[int, Seats], step: int) -> None:
    """Save at three ranks, load at two."""
    for size in (3, 2):
        with only(rank, size) as mine:
            if mine and size == 3:
                save_at(folder, odd_state(sized[3].line, 1), step, sized[3].group)
            elif mine:
                other = odd_state(sized[2].line, 2)
                assert load_into(folder, other, sized[2].group) is not None
                assert_same(local(other), local(odd_state(sized[2].line, 1)))


def refusals_and_fall_back(rank: int, world: int, folder: Path) -> None:
    """Both, with one start of the processes."""
    refusals(rank, world, folder)
    falls_back(rank, world, folder / "other")


def refusals(rank: int, world: int, folder: Path) -> None:
    """Every rank gets the same code, and nothing is committed."""
    plain = {"model": {"w": torch.ones(3)}}
    codes = {
        "copies differ": refused(lambda: save_at(folder, {"model": {"w": torch.ones(3) * rank}}, 1)),
        "values differ": refused(lambda: save_at(folder, {"step": rank}, 1)),
        "cuts differ": refused(lambda: save_at(folder, plain, 1 + rank)),
        "a value of an unknown type": refused(lambda: save_at(folder, {"f": object()}, 1)),
        "a sparse tensor": refused(lambda: save_at(folder, {"t": torch.eye(2).to_sparse()}, 1)),
        "a pickling planner": refused(lambda: pickling(folder)),
    }
    assert read_commit(LocalStore(folder / "store"), RUN, 0) is None
    save_at(folder, plain, 1)
    other = {"model": {"w": torch.zeros(4)}}
    codes["another shape"] = refused(lambda: load_into(folder, other))
    codes["another type"] = refused(lambda: load_into(folder, {"model": {"w": torch.zeros(3).double()}}))
    codes["a name that it lacks"] = refused(lambda: load_into(folder, {"model": {"v": torch.zeros(3)}}))
    (folder / f"codes-{rank}.json").write_text(json.dumps(codes))


def refused(action: Callable[[], object]) -> str:
    """The code of a refusal."""
    try:
        action()
    except ShardrelError as err:
        return err.code.value
    return "done"


def pickling(folder: Path) -> None:
    """DCP's own planner gives pickled values to whatever writer it is used with."""
    writer = CommitWriter(LocalStore(folder / "store"), purpose(folder, 1))
    in_our_words(lambda: dcp_save({"value": 1}, storage_writer=writer))


def falls_back(rank: int, world: int, folder: Path) -> None:
    """Bytes that only rank 1 reads are damaged: all ranks restore the generation before, and say so."""
    line = DeviceMesh("cpu", torch.arange(world))
    first, second = torch.arange(12.0).reshape(4, 3), torch.arange(12.0).reshape(4, 3) + 100
    for step, value in enumerate((first, second), 1):
        save_at(folder, {"w": placed(value, line, Shard(0)), "step": step}, step)
    if rank == 0:
        store = LocalStore(folder / "store")
        installed = read_commit(store, RUN, 1)
        assert installed is not None
        [entry] = read_manifest(store, installed.record).tensors
        [region] = [region for region in entry.regions if region.rank == 1]
        path = folder / "store" / object_key(region.object.digest)
        data = bytearray(path.read_bytes())
        data[region.start] ^= 1
        path.chmod(0o600)
        path.write_bytes(data)
    dist.barrier()
    into = {"w": placed(torch.zeros(4, 3), line, Shard(0)), "step": 0}
    loaded = load_into(folder, into)
    assert loaded is not None
    assert (loaded.generation, loaded.cut.step, loaded.passed_over) == (0, 1, ((1, "checkpoint.bytes"),))
    assert_same(local(into), local({"w": placed(first, line, Shard(0)), "step": 1}))

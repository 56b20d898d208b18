"""Everything that training holds goes through a checkpoint and comes back bit for bit, and training goes on from it."""

import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    ExponentialLR,
    LRScheduler,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
)
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from shardrel.checkpoint.dtypes import ITEM_BYTES
from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.save import save
from shardrel.checkpoint.sharded import load_sharded, save_sharded
from shardrel.checkpoint.sharded_writer import Purpose
from shardrel.drills.ranks import run_ranks
from shardrel.store.local import LocalStore
from shardrel.store.memory import MemoryStore
from tests.support.checkpoints import ORDER, ROOT, RUN, cut, load_on, restored_of
from tests.support.gates import DATASET, key
from tests.support.process import peak_memory
from tests.support.ranks import all_good
from tests.support.runs import started_run
from tests.support.sharded_jobs import assert_same, octets


@pytest.fixture(autouse=True)
def generators_stay() -> Iterator[None]:
    before = random.getstate(), torch.get_rng_state()
    yield
    random.setstate(before[0])
    torch.set_rng_state(before[1])


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    started_run(store, ROOT, RUN)
    return store


def save_it(store: Any, state: dict[str, Any], world_size: int = 1) -> None:
    all_good(
        run_ranks(
            world_size,
            lambda group: save(
                group, store, state, dataset=DATASET, run=RUN, cut=cut(1), order=ORDER, signer=key("admin")
            ),
        )
    )


class Job:
    """A model with dropout, AdamW, two schedulers, a scaler that grows, an average, and three sources of randomness."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        random.seed(seed)
        self.model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05, amsgrad=True)
        parts: list[LRScheduler] = [OneCycleLR(self.optimizer, 0.1, total_steps=20), ExponentialLR(self.optimizer, 0.9)]
        self.scheduler = SequentialLR(self.optimizer, parts, [4])
        self.second = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.plateau = ReduceLROnPlateau(self.second, patience=1)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        self.ema = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        self.noise = np.random.default_rng(seed)

    def train(self, steps: int) -> None:
        for _ in range(steps):
            x = torch.randn(6, 5) * random.random() + float(self.noise.normal())
            loss = self.model(x).square().mean()
            self.optimizer.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.scheduler.step()
            self.plateau.step(loss.item())
            self.ema.update_parameters(self.model)

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "second": self.second.state_dict(),
            "plateau": self.plateau.state_dict(),
            "scaler": self.scaler.state_dict(),
            "ema": self.ema.state_dict(),
            "random": {
                "python": random.getstate(),
                "torch": torch.get_rng_state(),
                "numpy": self.noise.bit_generator.state,
            },
        }

    def load(self, state: dict[str, Any]) -> None:
        for name in ("model", "optimizer", "scheduler", "second", "plateau", "scaler", "ema"):
            getattr(self, name).load_state_dict(state[name])
        random.setstate(state["random"]["python"])
        torch.set_rng_state(state["random"]["torch"])
        self.noise.bit_generator.state = state["random"]["numpy"]


@pytest.mark.parametrize(("saved_by", "loaded_by"), [(2, 3), (3, 1)])
def test_optimizer_schedulers_scaler_average_and_randomness_go_on(
    store: MemoryStore, saved_by: int, loaded_by: int
) -> None:
    whole = Job(1)
    whole.train(8)
    wanted = whole.state()
    first = Job(1)
    first.train(5)
    save_it(store, first.state(), saved_by)
    second = Job(2)
    restored = all_good(load_on(store, loaded_by))[0]
    assert restored is not None
    second.load(restored.state)
    second.train(3)
    assert_same(second.state(), wanted)
    assert wanted["scaler"]["scale"] > 8.0


def test_a_scheduler_keeps_its_floats_exactly(store: MemoryStore) -> None:
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)
    scheduler = CosineAnnealingLR(optimizer, 7)
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    save_it(store, {"scheduler": scheduler.state_dict()})
    assert restored_of(store).state["scheduler"] == scheduler.state_dict()


def test_an_optimizer_takes_its_state_from_a_sharded_save(store: MemoryStore) -> None:
    """DCP spells the numbers of parameters as strings, which an optimizer would take without a word, and have no state."""
    first = Job(1)
    first.train(3)
    purpose = Purpose(dataset=DATASET, run=RUN, cut=cut(1), order=ORDER, signer=key("admin"))
    save_sharded(store, {"optimizer": first.optimizer.state_dict()}, purpose)
    second = Job(2)
    second.optimizer.load_state_dict(restored_of(store).state["optimizer"])
    assert_same(second.optimizer.state_dict(), first.optimizer.state_dict())
    into = {"optimizer": Job(3).optimizer.state_dict()}
    into["optimizer"]["state"] = {
        n: {k: v * 0 for k, v in s.items()} for n, s in first.optimizer.state_dict()["state"].items()
    }
    load_sharded(store, into, dataset=DATASET, expected=Expected(run_id=RUN), signer=key("admin"))
    assert_same(into["optimizer"], first.optimizer.state_dict())


def of_every_layout(dtype: str) -> dict[str, torch.Tensor]:
    """Tensors of arbitrary bits: NaNs with payloads, subnormals and infinities among them."""
    generator = torch.Generator().manual_seed(len(dtype))
    kind = getattr(torch, dtype)
    top = 2 if dtype == "bool" else 256
    raw = torch.randint(0, top, (6, 8 * ITEM_BYTES[dtype]), dtype=torch.uint8, generator=generator)
    base = raw.view(kind)
    views = {
        "plain": base,
        "scalar": base[0, 0],
        "empty": base[:0],
        "transposed": base.t(),
        "strided": base[1::2, ::3],
        "shared": base[2:4],
        "expanded": base[:1].expand(3, 8),
        "many dimensions": base.reshape(2, 3, 1, 2, 4),
    }
    if kind.is_complex:
        views["conjugate"] = base.conj()
    if kind.is_floating_point and ITEM_BYTES[dtype] > 1:
        views["parameter"] = nn.Parameter(base)
    return views


@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
def test_every_element_type_and_layout_keeps_its_bits(store: MemoryStore, dtype: str) -> None:
    tensors = of_every_layout(dtype)
    save_it(store, {"model": tensors}, 2)
    restored = restored_of(store).state["model"]
    for name, tensor in tensors.items():
        found = restored[name]
        assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(octets(found), octets(tensor.detach())), name


def test_shared_storage_comes_back_as_tensors_of_their_own(store: MemoryStore) -> None:
    weight = torch.ones(4)
    save_it(store, {"model": {"tied": weight, "other": weight, "part": weight[1:3]}})
    restored = restored_of(store).state["model"]
    restored["tied"].zero_()
    assert torch.equal(restored["other"], torch.ones(4))
    assert torch.equal(restored["part"], torch.ones(2))


def test_nothing_is_pickled_and_nothing_unpickled(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any, **__: Any) -> Any:
        raise AssertionError("somebody pickles")

    for module, names in ((pickle, ("dump", "dumps", "load", "loads")), (torch, ("save", "load"))):
        for name in names:
            monkeypatch.setattr(module, name, forbidden)
    state = {"model": {"w": torch.arange(5.0)}, "step": 3}
    save(SoloGroup(), store, state, dataset=DATASET, run=RUN, cut=cut(1), order=ORDER, signer=key("admin"))
    assert torch.equal(restored_of(store).state["model"]["w"], torch.arange(5.0))
    into: dict[str, Any] = {"model": {"w": torch.zeros(5)}, "step": 0}
    load_sharded(store, into, dataset=DATASET, expected=Expected(run_id=RUN), signer=key("admin"))
    assert_same(into, state)


LOAD = """
import json, torch
from pathlib import Path
from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.sharded import load_sharded
from shardrel.store.local import LocalStore
from shardrel.trust.keys import from_pem
folder = Path({!r})
state = {{'w': torch.ones(12, 4 * 1024 * 1024)}}
key = from_pem('admin', (folder / 'key.pem').read_bytes())
if {}:
    load_sharded(LocalStore(folder / 'store'), state, dataset={!r}, expected=Expected(run_id={!r}), signer=key)
    assert state['w'][7, 7] == 7
pass"""


@pytest.mark.slow
def test_a_restore_takes_a_few_objects_of_memory_beside_the_state(tmp_path: Path) -> None:
    """192 MiB in twelve pieces: the peak is that of the state alone, and of the pieces that are read at a time."""
    store = LocalStore(tmp_path / "store")
    started_run(store, ROOT, RUN)
    (tmp_path / "key.pem").write_bytes(key("admin").to_pem())
    save_it(store, {"w": torch.arange(12.0).reshape(12, 1).expand(12, 4 * 1024 * 1024)})
    alone, loading = (peak_memory(LOAD, str(tmp_path), loads, DATASET, RUN) for loads in (0, 1))
    assert loading - alone < 120 * 1024 * 1024

"""States, saves, restores and damage for tests of checkpoints."""

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import torch

from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.imported import Target
from shardrel.checkpoint.load import Restored, load
from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.preflight import read_commit, read_manifest
from shardrel.checkpoint.save import Saved, save
from shardrel.data import ledger
from shardrel.drills.ranks import run_ranks
from shardrel.errors import ErrorCode
from shardrel.records.checkpoint import CheckpointManifest, Cut, OrderParameters
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.memory import MemoryStore
from shardrel.store.port import CreateOutcome, ObjectKey, Store
from tests.support.gates import DATASET, a_root, key
from tests.support.ranks import failures

RUN = "run-1"
ROOT = a_root("of a run")
ORDER = OrderParameters(function="block-splitmix64.v1", seed=3, block_shards=2, split=None)


class Sizes(ForwardingStore):
    """Remembers how many bytes each create had."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.sizes: list[int] = []

    def create(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        self.sizes.append(len(data))
        return super().create(key, data)


def cut(step: int) -> Cut:
    return msgspec.structs.replace(ledger.genesis(ROOT), step=step, cursor=8 * step)


def state(step: int) -> dict[str, Any]:
    """Every kind of tensor, one of them large enough to be cut over the ranks, and non-tensor state."""
    generator = torch.Generator().manual_seed(step)
    return {
        "model": {
            "large": torch.randn(700, 401, generator=generator),
            "wide.bf16": torch.randn(3, 5, generator=generator).to(torch.bfloat16),
            "transposed": torch.randn(4, 6, generator=generator).t(),
            "scalar": torch.tensor(float(step)),
            "empty": torch.empty(0, 7),
            "flags": torch.tensor([True, False]),
            "complex": torch.randn(3, generator=generator).to(torch.complex64).conj(),
        },
        "optimizer": {"state": {0: {"step": torch.tensor(step)}}, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99)}]},
        "scheduler": {"last": step, "none": None},
    }


def save_on(store: Any, step: int, world_size: int = 1) -> list[Saved | BaseException]:
    return run_ranks(
        world_size,
        lambda group: save(
            group, store, state(step), dataset=DATASET, run=RUN, cut=cut(step), order=ORDER, signer=key("admin")
        ),
    )


def load_on(store: Any, world_size: int = 1, **expected: Any) -> list[Restored | BaseException | None]:
    wanted = Expected(**{"run_id": RUN, "root": ROOT, "order": ORDER, **expected})
    return run_ranks(
        world_size,
        lambda group: load(group, store, dataset=DATASET, expected=wanted, required=("model",), signer=key("admin")),
    )


def restored_of(store: Any) -> Restored:
    """The newest checkpoint, as one process restores it."""
    restored = load(
        SoloGroup(), store, dataset=DATASET, expected=Expected(run_id=RUN, root=ROOT), required=(), signer=key("admin")
    )
    assert restored is not None
    return restored


def the_codes(results: list[Any]) -> set[ErrorCode]:
    """Codes over all ranks: one, when they failed alike."""
    return {failure.code for failure in failures(results)}


def damage(store: MemoryStore, key_of: str, change: Callable[[bytes], bytes | None]) -> None:
    """Change bytes behind the product's back; None removes them."""
    kept = store._versions.pop(ObjectKey(key_of))
    for one in kept:
        changed = change(one.data)
        if changed is not None:
            store._versions.setdefault(ObjectKey(key_of), []).append(dataclasses.replace(one, data=changed))


def target(store: Any) -> Target:
    """Where imports go: the run's beginning."""
    return Target(store=store, dataset=DATASET, run=RUN, cut=ledger.genesis(ROOT), signer=key("admin"))


def manifest_of(store: MemoryStore, generation: int) -> CheckpointManifest:
    installed = read_commit(store, RUN, generation)
    assert installed is not None
    return read_manifest(store, installed.record)


def assert_equal_state(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    def compare(one: Any, other: Any) -> None:
        assert type(one) is type(other)
        if isinstance(other, torch.Tensor):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert torch.equal(one, other.resolve_conj())
        elif isinstance(other, dict):
            assert list(one) == list(other)
            for name in other:
                compare(one[name], other[name])
        elif isinstance(other, list | tuple):
            assert len(one) == len(other)
            for mine, theirs in zip(one, other, strict=True):
                compare(mine, theirs)
        else:
            assert one == other

    assert sorted(found) == sorted(wanted)
    for name in wanted:
        compare(found[name], wanted[name])

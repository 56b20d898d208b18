"""The bits of a gradient and of a state do not depend on who computed which part."""

import numpy as np
import pytest
import torch

from shardrel.checkpoint.group import SoloGroup
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.lab.model import GROUPS, Classifier, canonical_gradient, in_order, state_root

COUNT = 2 * GROUPS


class Batch:
    """A rank's part of a made-up batch, with the fields that a gradient needs."""

    def __init__(self, rank: int, world_size: int, count: int = COUNT) -> None:
        self.count = count
        self.part = (rank * count // world_size, (rank + 1) * count // world_size)
        self.size = self.part[1] - self.part[0]

    def tensor(self, name: str) -> torch.Tensor:
        random = np.random.default_rng(1)
        images = random.integers(0, 256, (self.count, 784), np.uint8)
        values = {"image": images, "label": random.integers(0, 10, self.count, np.uint8)}[name]
        return torch.from_numpy(values[self.part[0] : self.part[1]])


@pytest.fixture
def model() -> Classifier:
    torch.manual_seed(5)
    return Classifier()


@pytest.mark.parametrize("world_size", [2, 3, 4, 5, 6])
def test_the_gradient_has_the_same_bits_at_every_world_size(
    world_size: int, model: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = canonical_gradient(SoloGroup(), model, Batch(0, 1))  # type: ignore[arg-type]
    rows: list[torch.Tensor] = []
    monkeypatch.setattr("shardrel.lab.model.sum_over_ranks", lambda group, tensor: rows.append(tensor))
    for rank in range(world_size):
        canonical_gradient(SoloGroup(), model, Batch(rank, world_size))  # type: ignore[arg-type]
    # Any order of the ranks, as a ring or a tree would take.
    total = rows[-1]
    for row in rows[:-1]:
        total = row + total
    assert torch.equal(in_order(total).view(torch.int32), alone.view(torch.int32))


def test_a_plain_sum_of_the_parts_has_other_bits(model: Classifier) -> None:
    """So the order of the groups is what the equality above rests on."""
    rows = torch.randn(GROUPS, 1000, generator=torch.Generator().manual_seed(1))
    parts = [in_order(rows[start : start + 15]) for start in range(0, GROUPS, 15)]
    assert not torch.equal(in_order(torch.stack(parts)), in_order(rows))


def test_a_batch_that_is_not_whole_groups_is_refused(model: Classifier) -> None:
    for batch in (Batch(0, 1, COUNT + 1), Batch(0, 7)):
        with pytest.raises(InvalidInputError) as refused:
            canonical_gradient(SoloGroup(), model, batch)  # type: ignore[arg-type]
        assert refused.value.code == ErrorCode.INPUT_INVALID


def test_the_root_of_a_state_tells_every_bit_and_no_placement() -> None:
    weight = torch.arange(12.0).reshape(3, 4)
    root = state_root({"model": {"weight": weight, "step": 1}})
    assert state_root({"model": {"weight": weight.t().contiguous().t(), "step": 1}}) == root
    changed = weight.clone()
    changed.view(torch.int32)[2, 3] ^= 1
    others = [{"weight": changed, "step": 1}, {"weight": weight, "step": 2}, {"weight": weight.double(), "step": 1}]
    assert root not in {state_root({"model": other}) for other in others}

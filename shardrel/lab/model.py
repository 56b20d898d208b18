"""A small classifier, and gradients whose bits depend on the batch alone. Source: schemas/SPEC.md#crash-lab.

A global batch is cut into groups of consecutive samples. The gradient of each group is computed alone, in the same
shape wherever that happens, and all of them are added in the order of the groups. So the sum has the same bits at
every world size that deals whole groups to its ranks.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from shardrel.canonical import json
from shardrel.checkpoint.group import Group
from shardrel.checkpoint.tensors import octets, take_apart
from shardrel.data.batches import StepBatch
from shardrel.digest import Digest, digest_of
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.lab.fashion import PIXELS
from shardrel.train.group import sum_over_ranks
from shardrel.train.session import Part, TorchRandom

CLASSES = 10
GROUPS = 60
"""Groups of a batch: 1 to 6 ranks each get whole ones."""

PARTS = frozenset({"model", "optimizer", "random"})
"""Of a state."""

_HIDDEN = 32


class Classifier(torch.nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(PIXELS, _HIDDEN)
        self.head = torch.nn.Linear(_HIDDEN, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits of images as bytes, shape (n, 784)."""
        return self.head(torch.relu(self.hidden(images.to(torch.float32) / 255)))  # type: ignore[no-any-return]


class Training:
    """Model, optimizer and random state of one rank; equal on all ranks."""

    def __init__(self, seed: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.model = Classifier()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, foreach=False)

    @property
    def parts(self) -> Mapping[str, Part]:
        """What a checkpoint holds."""
        return {"model": self.model, "optimizer": self.optimizer, "random": TorchRandom()}

    @property
    def state(self) -> dict[str, Any]:
        """The state of all parts."""
        return {name: part.state_dict() for name, part in self.parts.items()}

    def step(self, group: Group, batch: StepBatch) -> None:
        """Train on one batch.

        Raises:
            InvalidInputError: ``input.invalid`` where a rank's part is not whole groups.

        Ranks: all.
        """
        total = canonical_gradient(group, self.model, batch)
        start = 0
        for parameter in self.model.parameters():
            parameter.grad = total[start : start + parameter.numel()].reshape(parameter.shape).clone()
            start += parameter.numel()
        self.optimizer.step()


def canonical_gradient(group: Group, model: Classifier, batch: StepBatch) -> torch.Tensor:
    """The gradient of the mean loss over the global batch, the same bits at every world size.

    Ranks: all. A rank sends and gets a row for each of the groups, where a plain reduction needs one row.
    """
    size, rest = divmod(batch.count, GROUPS)
    if rest or batch.part[0] % size or batch.part[1] % size:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID,
            f"a batch is {GROUPS} groups, of which every rank has whole ones",
            samples=batch.count,
        )
    rows = torch.zeros(GROUPS, sum(parameter.numel() for parameter in model.parameters()))
    images, labels = batch.tensor("image"), batch.tensor("label")
    for start in range(0, batch.size, size):
        # Copies: where the bytes of a batch begin must not choose another kernel.
        part = images[start : start + size].clone(), labels[start : start + size].to(torch.int64).clone()
        rows[(batch.part[0] + start) // size] = _gradient(model, *part, batch.count)
    # All other ranks' rows are zeros, and x + 0 is x in any order.
    sum_over_ranks(group, rows)
    return in_order(rows)


def in_order(rows: torch.Tensor) -> torch.Tensor:
    """The sum of the rows, first to last, one addition a row."""
    total = torch.zeros(rows.shape[1])
    for row in rows:
        total += row
    return total


def state_root(state: Mapping[str, Any]) -> Digest:
    """Digest of a state as it is meant: trees, names, shapes, types and bytes; who stored what is not in it."""
    captured = take_apart(state)
    tensors = [
        [spec.name, list(spec.shape), spec.dtype, digest_of(np.ascontiguousarray(octets(tensor)).tobytes())]
        for spec, tensor in zip(captured.specs, captured.tensors, strict=True)
    ]
    return digest_of(json.encode([captured.trees, tensors]))


def _gradient(model: Classifier, images: torch.Tensor, labels: torch.Tensor, count: int) -> torch.Tensor:
    loss = torch.nn.functional.cross_entropy(model(images), labels, reduction="sum") / count
    return torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, [*model.parameters()])])

"""Gradients of a global batch whose parts are uneven. Source: schemas/SPEC.md#sample-order."""

from collections.abc import Iterable

import torch

from shardrel.checkpoint.group import Group
from shardrel.data.batches import StepBatch
from shardrel.train.group import sum_over_ranks


def reduce_gradients(group: Group, parameters: Iterable[torch.nn.Parameter], batch: StepBatch) -> None:
    """Make every rank's gradients those of the mean loss over the whole global batch.

    Before: each rank holds the gradients of the mean loss over its own part, or none where its part is empty.
    They are weighted by the true counts, so uneven parts don't bend the mean.

    Ranks: all, every step.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    flat = torch.cat([_gradient(parameter).reshape(-1) for parameter in trained]) * batch.share
    sum_over_ranks(group, flat)
    start = 0
    for parameter in trained:
        parameter.grad = flat[start : start + parameter.numel()].reshape(parameter.shape).clone()
        start += parameter.numel()


def mean_loss(group: Group, loss: torch.Tensor | None, batch: StepBatch) -> float:
    """The mean loss over the global batch, of the means over the parts; null for an empty part.

    Ranks: all.
    """
    value = torch.zeros(1, dtype=torch.float64) if loss is None else loss.detach().double().reshape(1) * batch.share
    sum_over_ranks(group, value)
    return float(value[0])


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad

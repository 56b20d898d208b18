"""One rank of ``benchmarks.lab``: steps with and without a canonical reduction, in turn; prints its seconds."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from shardrel.lab.model import GROUPS, Classifier, canonical_gradient
from shardrel.train.group import connect, sum_over_ranks

COUNT = 4 * GROUPS


class Part:
    """A rank's part of a made-up batch, with what a gradient needs of one."""

    def __init__(self, rank: int, world_size: int) -> None:
        self.count = COUNT
        self.part = (rank * COUNT // world_size, (rank + 1) * COUNT // world_size)
        self.size = self.part[1] - self.part[0]
        made = torch.Generator().manual_seed(rank)
        self._columns = {
            "image": torch.randint(0, 256, (self.size, 784), dtype=torch.uint8, generator=made),
            "label": torch.randint(0, 10, (self.size,), dtype=torch.uint8, generator=made),
        }

    def tensor(self, name: str) -> torch.Tensor:
        """A column."""
        return self._columns[name]


def main() -> None:
    """Measure, and say it."""
    steps = int(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Classifier()
    with connect(timeout_s=300) as group:
        part: Any = Part(group.rank, group.world_size)

        def plain() -> None:
            images, labels = part.tensor("image"), part.tensor("label").to(torch.int64)
            loss = torch.nn.functional.cross_entropy(model(images), labels, reduction="sum") / COUNT
            sum_over_ranks(
                group, torch.cat([one.reshape(-1) for one in torch.autograd.grad(loss, [*model.parameters()])])
            )

        sides = (lambda: canonical_gradient(group, model, part), plain)
        wall: tuple[list[float], list[float]] = ([], [])
        spent: tuple[list[float], list[float]] = ([], [])
        for turn in range(steps + 1):
            for side, act in enumerate(sides):
                group.exchange(b"")
                took = _timed(act)
                if turn:  # the first of each warms up
                    wall[side].append(took[0])
                    spent[side].append(took[1])
    sys.stdout.write(json.dumps({"event": "measured", "wall": wall, "cpu": spent, "bytes_ratio": GROUPS}) + "\n")


def _timed(act: Callable[[], object]) -> tuple[float, float]:
    wall, spent = time.perf_counter(), time.process_time()
    act()
    return time.perf_counter() - wall, time.process_time() - spent


if __name__ == "__main__":
    main()

"""One rank of ``benchmarks.barrier``: prints its seconds."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch.distributed as dist

from shardrel.data.cache import ShardCache
from shardrel.store.local import LocalStore
from shardrel.train.admission import join
from shardrel.train.group import connect
from shardrel.train.pin import TrainPlan

ROUNDS = 200
_MESSAGE = b"x" * 500


def main() -> None:
    """Measure, and say it."""
    store = LocalStore(sys.argv[1])
    plan = TrainPlan(columns=("text",), global_batch=64)
    began = time.perf_counter()
    with connect(timeout_s=300) as group:
        found = {"connect_s": time.perf_counter() - began}

        def pin() -> object:
            cache = ShardCache(Path(sys.argv[2]), store)
            return join(group, store, cache, dataset="data", run="run-1", plan=plan)

        found["barrier_s"] = _each(lambda: group.exchange(_MESSAGE), ROUNDS)
        found["gloo_s"] = _each(dist.barrier, ROUNDS)
        found["pin_cold_s"] = _each(pin, 1)
        found["pin_warm_s"] = _each(pin, 3)
    sys.stdout.write(json.dumps({"event": "measured", **found}) + "\n")


def _each(act: Callable[[], object], times: int) -> float:
    dist.barrier()
    began = time.perf_counter()
    for _ in range(times):
        act()
    return (time.perf_counter() - began) / times


if __name__ == "__main__":
    main()

"""The order of samples: quality, time to the next batch, memory. A peer's order is asked in the peers' environment."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.order_quality import Order, ours, quality

SAMPLES, SHARDS = 262_144, 128
SIZES = {"10_thousand": (10_000, 4), "100_million": (100_000_000, 10_000)}

_PY1E = """
import json, sys
import numpy as np
from benchmarks.loader_peers import _streaming
_streaming()
from streaming.base.shuffle.py1e import get_shuffle_py1e
samples, shards, epoch, block = map(int, sys.argv[1:5])
sizes = np.full(shards, samples // shards)
np.save(sys.argv[5], get_shuffle_py1e(sizes, 1, 1, epoch, block))
"""

_SEEK = """
import json, resource, sys, time
from shardrel.data.mix import samples_from
from shardrel.data.order import SampleOrder
def kib():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
samples, shards, at = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
order = SampleOrder(sizes=(samples // shards,) * shards, seed=1, block_shards=8)
before, start = kib(), time.process_time()
samples_from(order, int(samples * at), 256)
first = time.process_time()
samples_from(order, int(samples * at) + 256, 256)
done = time.process_time()
print(json.dumps({"seek_ms": (first - start) * 1e3, "next_ms": (done - first) * 1e3, "mib": (kib() - before) / 1024}))
"""


def measure_order(peers: Path | None) -> dict[str, object]:
    """All keys of the order."""
    results: dict[str, object] = {}
    for block_shards in (8, 32):
        results[f"order.quality.ours_{block_shards}_of_{SHARDS}_shards"] = quality(
            ours(SAMPLES, SHARDS, block_shards, 0), ours(SAMPLES, SHARDS, block_shards, 1)
        )
    rng = np.random.default_rng(3)
    results["order.quality.full"] = quality(rng.permutation(SAMPLES), rng.permutation(SAMPLES))
    if peers is not None:
        block = 8 * SAMPLES // SHARDS
        results["order.quality.py1e_same_reach"] = quality(_py1e(peers, 0, block), _py1e(peers, 1, block))
    for name, (samples, shards) in SIZES.items():
        for place in (0.0, 0.5, 0.99):
            results[f"order.seek.{name}.at_{place}"] = _seek(samples, shards, place)
    return results


def _seek(samples: int, shards: int, place: float) -> dict[str, float]:
    """Processor milliseconds to the first batch from nothing and to the next one, and what it took in memory."""
    command = [sys.executable, "-c", _SEEK, str(samples), str(shards), str(place)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {name: round(value, 2) for name, value in json.loads(done.stdout).items()}


def _py1e(peers: Path, epoch: int, block: int) -> Order:
    """MosaicML's order, over shards that are runs of the source, shuffled as far as our blocks reach."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "order.npy"
        words = [str(SAMPLES), str(SHARDS), str(epoch), str(block), str(out)]
        subprocess.run([str(peers), "-c", _PY1E, *words], check=True, capture_output=True)
        found: Order = np.load(out)
        return found[found >= 0]


if __name__ == "__main__":
    from benchmarks.loader import peer_python

    start = time.perf_counter()
    print(json.dumps(measure_order(peer_python()), indent=1), f"{time.perf_counter() - start:.0f} s")

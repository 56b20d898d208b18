"""Checkpoints of a sharded state on four ranks, against torch.distributed.checkpoint's own files.

``save`` and ``load``: ours hashes and commits; the baseline is FileSystemWriter (or Reader) and SHA-256 of the same bytes;
the ratio to plain DCP stands beside it. ``second``: a save with two of twenty tensors changed (10 %), against the first.
``async``: what the call of an asynchronous save takes, against DCP's. ``preflight``: the records' checks by regions.
A quick run has a quarter of the bytes, of which fixed costs are more.
"""

import json
import statistics
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

from benchmarks.measure import note
from shardrel.checkpoint.manifest import Expected, judge
from shardrel.digest import digest_of
from shardrel.records.checkpoint import CheckpointManifest, Region, TensorEntry
from shardrel.records.descriptor import TENSOR_BYTES, Descriptor
from shardrel.store.local import LocalStore
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_record, put_record
from tests.support.checkpoints import ROOT, RUN, cut
from tests.support.gates import key
from tests.support.gloo import run_gloo
from tests.support.runs import started_run

RANKS = 4
BYTES = 1 << 30
REGIONS = 100_000


def measure_checkpoint(*, quick: bool) -> dict[str, object]:
    """All ratios; both wall clock and processor seconds of all ranks."""
    size, count = (BYTES // 4, 3) if quick else (BYTES, 5)
    results: dict[str, object] = {"checkpoint.bytes": size, "checkpoint.ranks": RANKS}
    with tempfile.TemporaryDirectory(prefix="shardrel-bench-") as name:
        times = _run(Path(name), size, count)
    for what, ours, other in (
        ("save", "ours", "dcp+sha256"),
        ("save_to_plain_dcp", "ours", "dcp"),
        ("load_warm", "ours", "dcp+sha256"),
        ("load_warm_to_plain_dcp", "ours", "dcp"),
        ("load_cold", "ours", "dcp+sha256"),
        ("load_cold_to_plain_dcp", "ours", "dcp"),
        ("second_to_first", "ours", "first"),
        ("async_blocked", "ours", "dcp"),
    ):
        rounds = times[_source(what)]
        summary = {f"{unit}_ratio": _ratio(rounds, unit, ours, other) for unit in ("wall", "cpu")}
        summary |= {f"{side}_s": _median(rounds, side) for side in (ours, other)}
        results[f"checkpoint.{what}"] = summary
        results[f"checkpoint.{what}.ratio"] = summary["wall_ratio"]
        note(f"checkpoint.{what}: {summary}")
    results["checkpoint.preflight"] = preflight(REGIONS)
    note(f"checkpoint.preflight: {results['checkpoint.preflight']}")
    return results


def _run(folder: Path, size: int, count: int) -> Any:
    started_run(LocalStore(folder / "empty"), ROOT, RUN)
    (folder / "key.pem").write_bytes(key("admin").to_pem())
    (folder / "settings.json").write_text(json.dumps({"bytes": size, "count": count}))
    run_gloo("benchmarks.checkpoint_job:main", RANKS, folder, timeout=3600)
    return json.loads((folder / "times.json").read_text())


def _source(what: str) -> str:
    head = what.split("_to_")[0]
    return {"load_warm": "warm", "load_cold": "cold", "second": "second", "async_blocked": "async"}.get(head, head)


def _ratio(rounds: list[Any], unit: str, ours: str, other: str) -> float:
    return round(statistics.median(float(one[ours][unit]) / float(one[other][unit]) for one in rounds), 3)


def _median(rounds: list[Any], side: str) -> float:
    return round(statistics.median(float(one[side]["wall"]) for one in rounds), 4)


def preflight(regions: int) -> dict[str, object]:
    """Seconds and memory of reading and judging a manifest, at a number of regions and at half of it: linear is a ratio of two."""
    half, full = (_judged(number) for number in (regions // 2, regions))
    return {
        "regions": regions,
        "seconds": round(full[0], 2),
        "peak_mb": full[1],
        "to_half": round(full[0] / half[0], 2),
    }


def _judged(regions: int) -> tuple[float, int]:
    store = MemoryStore()
    where = put_record(store, _manifest(regions))

    def look() -> None:
        assert judge(get_record(store, where, CheckpointManifest), None, Expected(run_id=RUN)) == []

    began = time.process_time()
    look()
    seconds = time.process_time() - began
    tracemalloc.start()
    look()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return seconds, peak // 1_000_000


def _manifest(regions: int) -> CheckpointManifest:
    """A hundred regions a tensor, in a grid."""
    digest = digest_of(b"")
    where = Descriptor(media_type=TENSOR_BYTES, digest=digest, size=400, object_version=None)
    tensors = []
    for index in range(regions // 100):
        boxes = [
            Region(
                offsets=(10 * row, 10 * column),
                sizes=(10, 10),
                object=where,
                start=0,
                length=400,
                digest=digest,
                elements=100,
                encoding="raw-little-endian.v1",
                rank=0,
                replicas=(0,),
                attempt="a",
                step=1,
            )
            for row in range(10)
            for column in range(10)
        ]
        tensors.append(TensorEntry(name=f"m/{index}", shape=(100, 100), dtype="float32", regions=tuple(boxes)))
    return CheckpointManifest(
        run_id=RUN,
        root=ROOT,
        permit="p",
        generation=0,
        attempt="a",
        world_size=1,
        cut=cut(1),
        order=None,
        tensors=tuple(tensors),
        state={"m": {"$": "dict", "v": [[t.name, {"$": "tensor", "v": t.name}] for t in tensors]}},
        required_state=("m",),
    )

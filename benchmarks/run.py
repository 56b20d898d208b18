"""``make bench``: all ratios in one run, written to ``benchmarks/results.json``.

python -m benchmarks.run [--quick] [--only NAME ...]: of these a run is printed and not written down.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from benchmarks.barrier import measure_barrier
from benchmarks.baseline import read_and_hash, write_and_hash
from benchmarks.checkpoint import measure_checkpoint
from benchmarks.contamination import measure_contamination
from benchmarks.encryption import measure_encryption
from benchmarks.fences import measure_fences
from benchmarks.floor import Beside, Hashes
from benchmarks.gate import measure_gate
from benchmarks.inputs import write_ipc
from benchmarks.lab import measure_lab
from benchmarks.loader import measure_loader, peer_python
from benchmarks.measure import machine, note, pairs
from benchmarks.memory import peaks
from benchmarks.order import measure_order
from benchmarks.packed import measure_packed
from benchmarks.proofs import measure_proofs
from benchmarks.release import THREADS, Place, declare, place, publish_once, shard_files, verify_once
from shardrel.canonical.json import decode
from shardrel.records.release import Release
from shardrel.records.snapshot import MemberIndex, Snapshot
from shardrel.store.objects import get_by_digest

SHARDS = 16
RECORDS = {"tokens": 10_000, "small": 200_000}
TOKEN_COLUMN = {"tokens": "tokens", "small": None}
RESULTS = Path(__file__).parent / "results.json"

Figures = Mapping[str, object] | Iterable[tuple[str, object]]


def verify_and_publish(kind: str, folder: Path, shards: int, count: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Both ratios of one input."""
    source = folder / "source.arrow"
    note(f"{kind}: {write_ipc(source, kind, shards, RECORDS[kind]) / 1e6:.0f} MB of input, {shards} shards")
    at = place(folder / "store", folder / "keys")
    snapshot = declare(at, source, TOKEN_COLUMN[kind])
    published = publish_once(at, snapshot, source, shards)
    files = shard_files(folder / "store", published.root, at)
    release = decode(get_by_digest(at.store, published.root), Release)
    content = 16 + release.totals.logical_bytes // release.totals.records
    hashes = Hashes(RECORDS[kind], content, shards, _beside(at, release, source))

    measured = pairs(lambda: verify_once(at, published.root), lambda: read_and_hash(files, THREADS), count)

    def floor() -> None:
        read_and_hash(files, THREADS)
        hashes.of_verifier(THREADS)

    least = pairs(floor, lambda: read_and_hash(files, THREADS), count)
    yield f"verify.{kind}", {**measured.summary(), "floor_ratio": least.summary()["ratio"]}

    baseline_folder, target = folder / "baseline", folder / "target"
    baseline_folder.mkdir()
    declare(place(folder / "empty", folder / "keys"), source, TOKEN_COLUMN[kind])

    def ready() -> None:
        # A fresh store every time, with the gate and the snapshot in it: nothing of the release is there before.
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folder / "empty", target)

    def ours() -> None:
        publish_once(place(target, folder / "keys"), snapshot, source, shards)

    def bare() -> None:
        write_and_hash(source, baseline_folder, shards, THREADS)

    def least_of_publishing() -> None:
        bare()
        hashes.of_publisher(THREADS)

    measured, least = pairs(ours, bare, count, ready), pairs(least_of_publishing, bare, count)
    yield f"publish.{kind}", {**measured.summary(), "floor_ratio": least.summary()["ratio"]}


def _beside(at: Place, release: Release, source: Path) -> Beside:
    index = decode(get_by_digest(at.store, release.objects.member_index.digest), MemberIndex)
    listed = decode(get_by_digest(at.store, release.dataset_snapshot), Snapshot)
    index_bytes = sum(part.object.size for part in index.parts)
    snapshot_bytes = sum(part.object.size for part in listed.parts)
    return Beside(verifier=index_bytes + snapshot_bytes, publisher=index_bytes + source.stat().st_size)


def areas(shards: int, count: int, *, quick: bool) -> dict[str, Callable[[], Figures]]:
    """What can be measured, by the names that ``--only`` takes."""
    return {
        "tokens": lambda: releases("tokens", shards, count),
        "small": lambda: releases("small", shards, count),
        "memory": lambda: {"verify.memory": peaks()},
        "gate": lambda: measure_gate(quick=quick),
        "proofs": lambda: measure_proofs(quick=quick),
        "encryption": lambda: measure_encryption(quick=quick),
        "packed": lambda: measure_packed(quick=quick),
        "fences": lambda: measure_fences(quick=quick),
        "contamination": lambda: {"fences.contamination": measure_contamination(6 if quick else 60)},
        "order": lambda: measure_order(peer_python()),
        "loader": lambda: measure_loader(quick=quick),
        "barrier": lambda: measure_barrier(quick=quick),
        "checkpoint": lambda: measure_checkpoint(quick=quick),
        "lab": lambda: measure_lab(quick=quick),
    }


def releases(kind: str, shards: int, count: int) -> Iterator[tuple[str, object]]:
    """Both ratios of one input, in a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="shardrel-bench-") as name:
        for key, summary in verify_and_publish(kind, Path(name), shards, count):
            yield key, summary
            yield f"{key}.ratio", summary["ratio"]
            note(f"{key}: {summary}")


def main() -> None:
    """Run and print; a whole run is written down."""
    parser = argparse.ArgumentParser(description="Ratios against a stated baseline, both sides in one run.")
    parser.add_argument("--quick", action="store_true", help="4 shards and 3 pairs: to try the benchmarks themselves")
    parser.add_argument("--only", nargs="*", choices=areas(0, 0, quick=True), default=[], help="some of them")
    options = parser.parse_args()
    known = areas(*((4, 3) if options.quick else (SHARDS, 7)), quick=options.quick)
    results: dict[str, object] = {
        "machine": machine(),
        "versions": _versions(),
        "commit": _commit(),
        "threads": THREADS,
    }
    for name in options.only or known:
        results |= known[name]()
    text = json.dumps(results, indent=1, sort_keys=True)
    if not options.only and not options.quick:
        RESULTS.write_text(text + "\n", encoding="utf-8")
    print(text)


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("pyarrow", "datafusion", "numpy")}


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()

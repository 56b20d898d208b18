"""The loader against its peers and against bare memory-mapped Arrow, on the same tokens and the same images.

The peers are installed into an environment of their own (they pin other things than we do); without one only the bare
side is compared. Every measurement is a process: rows, wall seconds and processor seconds of all its processes.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.inputs import write_images, write_ipc
from benchmarks.loader_own import Published
from benchmarks.loader_peers import COLUMN, SETTINGS
from benchmarks.loader_s3 import bucket
from benchmarks.measure import note
from benchmarks.release import declare, place, publish_once

ROOT = Path(__file__).parent.parent
PEERS = ROOT / ".venv-peers"
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["peers"]
ROWS = {"tokens": 100_000, "images": 16_000}
SHARDS = 16
BATCHES = (32, 256)
_PATIENCE = 60
# Not a loader that hands out tensors, so it is shown and not counted among the peers.
BY_HAND = "huggingface.arrow_by_hand"

Measured = dict[str, float]


def measure_loader(*, quick: bool) -> dict[str, object]:
    """All keys of the loader."""
    results: dict[str, object] = {}
    peers = peer_python()
    for kind in ("tokens", "images"):
        with tempfile.TemporaryDirectory(prefix="shardrel-bench-") as name:
            folder = Path(name)
            prepare(folder, kind, ROWS[kind] // (10 if quick else 1), peers)
            for key, value in one_kind(folder, kind, peers, rounds=3 if quick else 7, seconds=2 if quick else 5):
                results[f"loader.{kind}.{key}"] = value
                note(f"loader.{kind}.{key}: {value}")
    results |= _worst(results)
    return results


def prepare(folder: Path, kind: str, rows: int, peers: Path | None) -> None:
    """Source, release, bare files and every peer's own format."""
    source = folder / "source.arrow"
    if kind == "tokens":
        write_ipc(source, "tokens", SHARDS, rows // SHARDS)
    else:
        write_images(source, rows)
    at = place(folder / "store", folder / "keys")
    snapshot = declare(at, source, "tokens" if kind == "tokens" else None)
    (folder / "root").write_text(publish_once(at, snapshot, source, SHARDS, packed=(COLUMN[kind],)).root)
    Published(folder, kind).write_bare()
    if peers is not None:
        _run(peers, "benchmarks.loader_peers", "make", str(folder), kind)


def one_kind(folder: Path, kind: str, peers: Path | None, *, rounds: int, seconds: float) -> Any:
    """Keys and values of one kind of data."""
    cold = own(folder, kind, "ours", "batch", 256, 600, "cold")
    own(folder, kind, "ours", "batch", 256, 0)  # the warm cache is there from now on
    yield "cold.samples_per_s", round(cold["rows"] / cold["wall_s"])
    yield "cold.fetched_over_release", fetched(folder, kind)
    for shape in ("rows", "batch"):
        for batch in BATCHES:
            pairs = [
                (own(folder, kind, "ours", shape, batch, seconds), own(folder, kind, "bare", shape, batch, seconds))
                for _ in range(rounds)
            ]
            yield f"warm_vs_bare.{shape}.{batch}", compared(pairs)
    if peers is None:
        return
    table = _table(peers, folder, kind, list(SETTINGS), seconds, "warm")
    yield "peers", {name: _speeds(one) for name, one in table.items()}
    counted = {name: one for name, one in table.items() if name != BY_HAND}
    fastest = max(counted, key=lambda name: counted[name]["rows"] / counted[name]["wall_s"])
    pairs = [
        (own(folder, kind, "ours", "rows", 32, seconds), peer(peers, folder, kind, fastest, seconds))
        for _ in range(rounds)
    ]
    yield "warm_vs_fastest_peer", {"peer": fastest, **compared(pairs)}
    settings = _cold_settings(counted)
    yield from _cold(folder, kind, peers, settings, "cold")
    with bucket(folder, kind, SHARDS):
        yield from _cold(folder, kind, peers, settings, "s3")


def _cold(folder: Path, kind: str, peers: Path, settings: list[str], state: str) -> Any:
    """One epoch into empty caches: every peer, and the fastest of them against us.

    A peer that takes longer than ``_PATIENCE`` is measured by what it did until then.
    """
    table = _table(peers, folder, kind, settings, _PATIENCE, state)
    yield f"{state}_peers", {name: _speeds(one) for name, one in table.items()}
    best = max(table, key=lambda name: table[name]["rows"] / table[name]["wall_s"])
    pairs = [
        (own(folder, kind, "ours", "rows", 32, 600, state), peer(peers, folder, kind, best, 600, state))
        for _ in range(3)
    ]
    yield f"{state}_vs_fastest_peer", {"peer": best, **compared(pairs)}


def _table(
    peers: Path, folder: Path, kind: str, settings: list[str], seconds: float, state: str
) -> dict[str, Measured]:
    """One measurement of each setting; one that fails is noted, and left out."""
    table = {}
    for name in settings:
        try:
            table[name] = peer(peers, folder, kind, name, seconds, state)
        except SystemExit as err:
            note(f"left out: {err}")
    return table


def compared(pairs: list[tuple[Measured, Measured]]) -> dict[str, object]:
    """How many times as fast we are: by wall time, and by processor time."""
    wall = [(a["rows"] / a["wall_s"]) / (b["rows"] / b["wall_s"]) for a, b in pairs]
    cpu = [(a["rows"] / a["cpu_s"]) / (b["rows"] / b["cpu_s"]) for a, b in pairs]
    return {
        "ratio": round(statistics.median(wall), 2),
        "min": round(min(wall), 2),
        "max": round(max(wall), 2),
        "cpu_ratio": round(statistics.median(cpu), 2),
        "pairs": len(pairs),
        "ours": _speeds(pairs[-1][0]),
        "other": _speeds(pairs[-1][1]),
    }


def fetched(folder: Path, kind: str) -> dict[str, float]:
    """Bytes that two ranks of a host fetch together in each of two epochs, over the size of the release."""
    from shardrel.data.cache import ShardCache
    from shardrel.data.decoded import DecodedCache, ShardEntry

    data = Published(folder, kind)
    with tempfile.TemporaryDirectory() as fresh:
        caches = [ShardCache(Path(fresh), data.store) for _ in range(2)]
        shares, before = {}, 0
        for epoch in ("first_epoch", "second_epoch"):
            for shard in data.release.shards:
                for cache in caches:
                    DecodedCache(cache).open(ShardEntry(shard=shard, schema=data.schema), data.fields(), None)
            so_far = sum(cache.fetched for cache in caches)
            shares[epoch] = round((so_far - before) / data.release.totals.stored_bytes, 3)
            before = so_far
        return shares


def own(folder: Path, kind: str, side: str, shape: str, batch: int, seconds: float, state: str = "warm") -> Measured:
    """One measurement of our side or the bare one."""
    words = (str(folder), kind, side, shape, str(batch), str(seconds), state)
    return _run(Path(sys.executable), "benchmarks.loader_own", *words)


def peer(python: Path, folder: Path, kind: str, setting: str, seconds: float, state: str = "warm") -> Measured:
    """One measurement of a peer."""
    return _run(python, "benchmarks.loader_peers", "read", str(folder), kind, setting, str(seconds), state)


def peer_python() -> Path | None:
    """The peers' interpreter: made on first use; None where it can't be, which the results then say."""
    python = Path(os.environ.get("SHARDREL_BENCH_PEERS", PEERS / "bin/python"))
    if python.exists():
        return python
    note("installing the peers into .venv-peers")
    try:
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, *(one for one in PACKAGES if one.startswith("torch"))], check=True)
        subprocess.run([*pip, f"pyarrow=={pa.__version__}", *PACKAGES], check=True)
    except subprocess.CalledProcessError:
        note("the peers can't be installed here: only the bare side is compared")
        return None
    return python


def _cold_settings(counted: dict[str, Measured]) -> list[str]:
    """All settings but those of Hugging Face datasets that were slower warm: they differ in what is done with a row."""
    speeds = {name: one["rows"] / one["wall_s"] for name, one in counted.items()}
    alike = [name for name in speeds if name.startswith("huggingface.")]
    return [name for name in speeds if name not in alike] + [max(alike, key=lambda name: speeds[name])]


def _speeds(one: Measured) -> dict[str, int]:
    return {"samples_per_s": round(one["rows"] / one["wall_s"]), "cpu_ns": round(one["cpu_s"] / one["rows"] * 1e9)}


def _worst(results: dict[str, Any]) -> dict[str, object]:
    """The keys that are held against the goals: the least favourable of all kinds and shapes."""
    bare = [value["ratio"] for key, value in results.items() if ".warm_vs_bare." in key]
    peers = [value["ratio"] for key, value in results.items() if key.endswith(".warm_vs_fastest_peer")]
    cold = [value["ratio"] for key, value in results.items() if key.endswith(".cold_vs_fastest_peer")]
    s3 = [value["ratio"] for key, value in results.items() if key.endswith(".s3_vs_fastest_peer")]
    found: dict[str, object] = {"loader.warm_vs_bare_scan": min(bare)}
    if peers:
        found |= {"loader.warm_vs_fastest_peer": min(peers), "loader.cold_vs_fastest_peer": min(cold)}
        found["loader.s3_vs_fastest_peer"] = min(s3)
    return found


def _run(python: Path, module: str, *words: str) -> Measured:
    # Hugging Face datasets ask nobody, but are let out to fetch from the bucket.
    offline = "0" if "SHARDREL_BENCH_BUCKET" in os.environ else "1"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": offline, "HF_DATASETS_OFFLINE": offline}
    done = subprocess.run(
        [str(python), "-m", module, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{module} {' '.join(words[1:])}: {done.stderr[-2000:]}")
    last = done.stdout.strip().splitlines()[-1:] or ["{}"]
    found: Measured = json.loads(last[0]) if last[0].startswith("{") else {}
    return found

"""The gate: requests to the store by verb and purpose, admissions under contention, size of the state.

Throughput is a ratio: admissions per second of 1 to 8 processes on one gate, divided by what as many processes reach
that increment one number on the same server by read and compare-and-swap, and do nothing else.
"""

import json as plain_json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from benchmarks.measure import note
from benchmarks.release import DATASET, Place, declare, publish_once, verify_once
from shardrel.canonical import json
from shardrel.clock import now_utc
from shardrel.drills.recording_store import RecordingStore
from shardrel.gate import fence, gc, runs
from shardrel.gate.admit import admit
from shardrel.gate.approve import approve
from shardrel.gate.attestations import list_envelopes
from shardrel.gate.call import Call
from shardrel.gate.init import init
from shardrel.gate.revoke import revoke
from shardrel.gate.rollback import rollback
from shardrel.gate.view import read_gate
from shardrel.records.fence import TombstoneEntry
from shardrel.records.gate import GateState
from shardrel.store.objects import put
from shardrel.store.open import open_store
from shardrel.store.port import Store
from shardrel.store.probe import SHORT, probe
from shardrel.store.verdicts import conforming, keep
from shardrel.trust import keyring
from shardrel.trust.policy import default_policy
from tests.support.seaweed import seaweed
from tests.support.shared_server import shared_server

PERMITS = 1_000
LEFT_BEHIND = 10
CROWDS = (1, 2, 4, 8)
SECONDS = {"local": 3.0, "s3": 6.0}


@dataclass(frozen=True, slots=True)
class Site:
    """A gate with one eligible root, and how another process gets there."""

    at: Place
    root: str
    url: str
    keys: Path
    environment: dict[str, str]


def measure_gate(*, quick: bool) -> Iterator[tuple[str, object]]:
    """All figures of the gate, under their keys in ``results.json``."""
    with tempfile.TemporaryDirectory(prefix="shardrel-bench-gate-") as name:
        folder = Path(name)
        sites = {"local": _site(folder, str(folder / "store"), {})}
        with _server(folder) as environment:
            sites["s3"] = _site(folder, f"s3://versioned/{folder.name}", environment)
            requests = requests_by_verb(sites["s3"])
            yield "gate.requests", requests
            admission = requests["admit"]
            yield "gate.requests.admit", sum(admission.values()) - admission["attestation"]
            yield "gate.requests.admit.attestations", admission["attestation"]
            for kind, site in sites.items():
                found = contention(site, 1.0 if quick else SECONDS[kind], rounds=1 if quick else 3)
                yield f"gate.admissions.{kind}", found
                yield f"gate.admissions.{kind}.ratio", found[str(CROWDS[-1])]["ratio"]
        state = state_size(sites["local"].at.store)
        yield "gate.state", state
        yield "gate.state.bytes", state["bytes"]


@contextmanager
def _server(folder: Path) -> Iterator[dict[str, str]]:
    with shared_server(folder / "seaweed", seaweed) as server:
        before = dict(os.environ)
        os.environ.update(server.environment)
        try:
            yield server.environment
        finally:
            os.environ.clear()
            os.environ.update(before)


def _site(folder: Path, url: str, environment: dict[str, str]) -> Site:
    keys = folder / "keys"
    public = keyring.ensure(keys)
    store = open_store(url)
    keep(store, DATASET, probe(store, SHORT), now_utc())
    at = Place(store, {name: keyring.load(keys, name) for name in public})
    init(store, DATASET, default_policy(public), _call(at))
    source = folder / "source.arrow"
    table = pa.table({"id": [f"sample-{number}" for number in range(100)], "text": ["text"] * 100})
    with pa.ipc.new_file(str(source), table.schema) as writer:
        writer.write_table(table)
    root = publish_once(at, declare(at, source, None), source, 1).root
    verify_once(at, root)
    approve(store, read_gate(store, DATASET), root, at.keys["approver"], now_utc())
    return Site(at, root, url, keys, environment)


def _call(at: Place) -> Call:
    return Call(signers=[at.keys["admin"]], recorded_at=now_utc(), operation_id=None, pending=None)


def requests_by_verb(site: Site) -> dict[str, Counter[str]]:
    """How many requests each verb sends from the first one on, by purpose. Each of them is one HTTP request on S3."""
    at, root = site.at, site.root
    counted: dict[str, Counter[str]] = {}

    def count(verb: str, act: Callable[[Store], object], *, writes: bool = True) -> None:
        recording = RecordingStore(at.store)
        act(conforming(recording, DATASET) if writes else recording)
        counted[verb] = Counter(_purpose(operation, key) for operation, key in recording.requests)

    count("admit", lambda store: admit(store, DATASET, root, "prod", _call(at)))
    count("rollback", lambda store: rollback(store, DATASET, root, "prod", _call(at)))
    count("run start", lambda store: runs.start(store, DATASET, "prod", _call(at), run_id="run-1"))
    count("run show", lambda store: runs.show(store, DATASET, "run-1"), writes=False)
    entry = TombstoneEntry(
        sequence=1, sample_id="nobody", source_id=None, source_version=None, content_digest=None, reason=None
    )
    count("fence", lambda store: fence.advance(store, DATASET, "tombstones", [entry], _call(at)))
    _recheck(at, root)
    count("run renew", lambda store: runs.renew(store, DATASET, "run-1", _call(at)))
    count("run finish", lambda store: runs.finish(store, DATASET, "run-1", _call(at)))
    count("approve", lambda store: approve(store, read_gate(store, DATASET), root, at.keys["approver"], now_utc()))
    count("revoke", lambda store: revoke(store, DATASET, root, "benchmark.end", _call(at)))
    verify_once(at, root)
    approve(at.store, read_gate(at.store, DATASET), root, at.keys["approver"], now_utc())
    for number in range(1, LEFT_BEHIND + 1):
        put(at.store, bytes([number]) * (1 << 20), "application/octet-stream")
    count("gc", lambda store: gc.collect(store, DATASET, _call(at)))
    return counted


def _recheck(at: Place, root: str) -> None:
    from verifier.recheck import recheck_fences
    from verifier.verify import World

    world = World(signer=at.keys["verifier"], now=now_utc, progress=lambda done, total: None, workers=1)
    recheck_fences(at.store, root, read_gate(at.store, DATASET), world=world)


def _purpose(operation: str, key: str) -> str:
    if operation in ("list", "look", "delete"):
        return {"list": "listing", "look": "look at an object"}.get(operation, operation)
    if key.startswith("gates/"):
        part = key.split("/")[2]
        return {"operations": "intent", "probe": "verdict"}.get(part, "swap" if operation == "swap" else "state")
    if key.startswith("attestations/"):
        return {"list": "listing", "read": "attestation"}.get(operation, "attach")
    if key.startswith("runs/"):
        return f"run record {operation}"
    return "policy or link" if operation == "read" else "transition or object"


def contention(site: Site, seconds: float, rounds: int) -> dict[str, dict[str, Any]]:
    """Admissions and bare swaps per second, for each number of processes; both sides take turns."""
    envelopes = len(list_envelopes(site.at.store, site.root))
    found: dict[str, dict[str, Any]] = {}
    for crowd in CROWDS:
        pairs = []
        for _ in range(rounds):
            admissions = _together(site, "admit", crowd, seconds)
            pairs.append((admissions, _together(site, "swap", crowd, seconds)))
        ratios = [ours["rate"] / raw["rate"] for ours, raw in pairs]
        found[str(crowd)] = {
            "ratio": round(statistics.median(ratios), 3),
            "min": round(min(ratios), 3),
            "max": round(max(ratios), 3),
            "admissions_s": round(statistics.median(ours["rate"] for ours, _ in pairs), 2),
            "swaps_s": round(statistics.median(raw["rate"] for _, raw in pairs), 2),
            "cpu_ms_per_admission": round(statistics.median(ours["cpu_ms"] for ours, _ in pairs), 2),
            "envelopes": envelopes,
        }
        note(f"gate, {site.url.partition(':')[0]}, {crowd} processes: {found[str(crowd)]}")
    return found


def _together(site: Site, work: str, crowd: int, seconds: float) -> dict[str, float]:
    """Let so many processes work for so long at the same time."""
    plan = {"work": work, "url": site.url, "keys": str(site.keys), "root": site.root, "seconds": seconds}
    command = [sys.executable, "-m", "benchmarks.gate_worker", plain_json.dumps(plan)]
    pipe = subprocess.PIPE
    environment = {**os.environ, **site.environment}
    workers = [
        subprocess.Popen([*command, str(number)], stdin=pipe, stdout=pipe, text=True, env=environment)
        for number in range(crowd)
    ]
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()  # ready
    start = time.time() + 0.1
    answers = []
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(f"{start}\n")
        worker.stdin.flush()
    for worker in workers:
        out, _ = worker.communicate()
        answers.append(plain_json.loads(out))
    done = sum(answer["done"] for answer in answers)
    took = max(answer["end"] for answer in answers) - start
    cpu = sum(answer["cpu"] for answer in answers)
    return {"rate": done / took, "cpu_ms": 1000 * cpu / max(done, 1)}


def state_size(store: Store) -> dict[str, float]:
    """The state with so many open runs, each with its permit, and what reading and writing it takes."""
    view = read_gate(store, DATASET)
    alias = next(iter(view.body.aliases.values()))
    permit = next(iter(view.body.permits.values()))
    names = [f"run-{number:04d}" for number in range(PERMITS)]
    permits = {f"permit-{name}": replace(permit, kind="run", subject=name) for name in names}
    from shardrel.records.gate import Run

    open_runs = {
        name: Run(
            alias="prod",
            root=alias.root,
            generation=alias.generation,
            permit=f"permit-{name}",
            closed=None,
            head=None,
            sequence=alias.sequence,
        )
        for name in names
    }
    state = replace(view.state, body=replace(view.body, runs=open_runs, permits=permits))
    data = json.encode(state)
    return {
        "permits": PERMITS,
        "bytes": len(data),
        "read_cpu_ms": _cpu_ms(lambda: json.decode(data, GateState)),
        "write_cpu_ms": _cpu_ms(lambda: json.encode(state)),
    }


def _cpu_ms(act: Callable[[], object]) -> float:
    times = []
    for _ in range(7):
        start = time.process_time()
        act()
        times.append(time.process_time() - start)
    return round(1000 * statistics.median(times), 2)

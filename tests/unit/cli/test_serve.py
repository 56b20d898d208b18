"""``shardrel serve`` in a process of its own: a page, a probe and figures of a real gate, and nothing written."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from shardrel.errors import InvalidInputError
from shardrel.gate import fence, runs
from shardrel.gate.attestations import attach
from shardrel.gate.view import read_gate
from shardrel.records.report import REPORT_PREDICATE, STATEMENT_PAYLOAD, Counts
from shardrel.store.local import LocalStore
from shardrel.trust.envelope import seal
from shardrel.trust.statement import statement
from shardrel.watch.endpoint import address, endpoint
from shardrel.watch.figures import METRICS, Figures
from tests.support.gates import a_report
from tests.support.runs import a_deletion
from tests.support.training import TrainingWorld, training_world

ROOT = Path(__file__).resolve().parents[3]


def serving(store: Path, dataset: str, *more: str) -> "subprocess.Popen[str]":
    """A server that has just been started."""
    words = ["serve", "--store", str(store), "--dataset", dataset, "--port", "0", "--every", "0", *more]
    return subprocess.Popen(
        [sys.executable, "-m", "shardrel.cli", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@contextmanager
def served(store: Path, dataset: str) -> Iterator[str]:
    """The address of a running server; it has to end well at SIGTERM."""
    process = serving(store, dataset, "--json")
    assert process.stderr is not None
    line = process.stderr.readline()
    try:
        yield str(json.loads(line)["url"]).rstrip("/")
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, ""), err
    assert json.loads(out)["host"] == "127.0.0.1"


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as err:
        return err.code, err.read().decode()


def figures(address: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(get(f"{address}/metrics")[1]):
        for sample in family.samples:
            assert sample.name in METRICS
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


@pytest.fixture
def world(tmp_path: Path) -> TrainingWorld:
    return training_world(LocalStore(str(tmp_path / "store")), tmp_path, records=20, shards=2)


def files(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def find_wrong_members(world: TrainingWorld) -> None:
    """A verifier's report that the root is not what its snapshot declares."""
    report = replace(
        a_report(read_gate(world.store, world.dataset).body, world.root),
        verdict="FAILED", counts=Counts(missing=1, extra=2, duplicate=3), findings_total=6,
    )  # fmt: skip
    said = statement(world.root, REPORT_PREDICATE, report, "root")
    attach(world.store, world.root, seal(said, STATEMENT_PAYLOAD, [world.keys["verifier"]]))


def test_it_shows_the_gate_as_it_moves_and_writes_nothing(world: TrainingWorld, tmp_path: Path) -> None:
    with served(tmp_path / "store", world.dataset) as address:
        before = files(tmp_path / "store")
        status, text = get(f"{address}/readyz")
        assert (status, json.loads(text)["ready"], json.loads(text)["dataset"]) == (200, True, world.dataset)
        assert world.root in get(f"{address}/")[1]
        seen = figures(address)
        run = (("dataset", world.dataset), ("root", world.root), ("run", world.run))
        assert seen["shardrel_run_permit_open"] == {run: 1}
        assert seen["shardrel_missing_members"] == {(("root", world.root),): 0}
        assert get(f"{address}/nothing")[0] == 404
        assert files(tmp_path / "store") == before

        fence.advance(world.store, world.dataset, "tombstones", [a_deletion(1)], world.call())
        assert figures(address)["shardrel_run_permit_open"] == {run: 0}
        assert figures(address)["shardrel_fence_watermark"][(("dataset", world.dataset), ("fence", "tombstones"))] == 1

        find_wrong_members(world)
        wrong = {name: figures(address)[f"shardrel_{name}_members"] for name in ("missing", "extra", "duplicate")}
        assert [set(one.values()) for one in wrong.values()] == [{1}, {2}, {3}]

        runs.cancel(world.store, world.dataset, world.run, world.call())
        assert "shardrel_run_permit_open" not in figures(address)


def test_a_gate_that_does_not_hold_is_not_ready(world: TrainingWorld, tmp_path: Path) -> None:
    with served(tmp_path / "store", "other") as address:
        status, text = get(f"{address}/readyz")
        assert (status, json.loads(text)) == (503, {"ready": False, "dataset": "other", "code": "gate.absent"})
        assert get(f"{address}/")[0] == 503
        seen = figures(address)
        assert seen["shardrel_gate_ready"] == {(("dataset", "other"),): 0}
        assert sum(seen["shardrel_gate_read_failures_total"].values()) >= 1


def test_people_are_told_the_address_and_that_there_is_no_gate(tmp_path: Path) -> None:
    process = serving(tmp_path, "other")
    assert process.stderr is not None
    told, refused = process.stderr.readline(), process.stderr.readline()
    [url] = re.findall(r"http://127\.0\.0\.1:\d+/", told)
    status = get(url)[0]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert (status, process.returncode) == (503, 0)
    assert "gate.absent" in refused


def test_an_address_is_one_that_a_browser_takes() -> None:
    assert address("0.0.0.0", 1) == "http://0.0.0.0:1/"
    assert address("::1", 2) == "http://[::1]:2/"


def test_a_port_in_use_is_said_to_be() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInputError) as caught:
            endpoint("127.0.0.1", port, {}).__enter__()
    assert caught.value.context == {"host": "127.0.0.1", "port": port}
    assert "in use" in caught.value.message


def test_figures_are_put_in_the_place_of_others_at_once() -> None:
    """A scrape while a gate is read again sees all figures of before or all of after."""
    figures, name = Figures(), "shardrel_fence_watermark"

    def fresh(value: int) -> Figures:
        made = Figures()
        for number in range(200):
            made.put(name, value, dataset=f"data-{number}", fence="tombstones")
        return made

    seen: list[set[float]] = []
    sizes: set[int] = set()
    figures.replace([name], fresh(0))
    done = threading.Event()

    def scrape() -> None:
        while not done.is_set():
            values = figures.read()[name].values()
            seen.append(set(values))
            sizes.add(len(values))

    reader = threading.Thread(target=scrape)
    reader.start()
    for value in range(1, 300):
        figures.replace([name], fresh(value))
    done.set()
    reader.join()
    assert (sizes, max(map(len, seen))) == ({200}, 1)

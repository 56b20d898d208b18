"""A gate with a thousand open runs: its state stays small, and its status stays on a screen."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from shardrel.canonical import json
from shardrel.cli.main import main
from shardrel.digest import digest_of
from shardrel.gate.admit import admit
from shardrel.gate.view import read_gate
from shardrel.records.gate import Closed, GateBody, Permit, Run
from shardrel.records.report import TRANSITION_PAYLOAD
from shardrel.store.layout import gate_key
from shardrel.store.local import LocalStore
from shardrel.store.port import Written
from shardrel.trust.envelope import seal
from tests.support import gates
from tests.support.command import shardrel_in

ROOT = gates.a_root("one")
RUNS, WAITING = 1_000, 3
ALIASES = ("prod", "canary", "dev")
CLOSED = Closed(by="tombstones", watermark=1, sequence=4)


def crowded(body: GateBody) -> GateBody:
    """The gate with so many open runs, of which a few wait for a permit."""
    names = [f"run-{number:04d}" for number in range(RUNS)]
    held = {name: digest_of(name.encode())[7:] for name in names[: RUNS - WAITING]}
    runs = {
        name: Run(
            alias=ALIASES[number % 3], root=ROOT, generation=1, permit=held.get(name),
            closed=None if name in held else CLOSED, head=None, sequence=4,
        )
        for number, name in enumerate(names)
    }  # fmt: skip
    permits = {
        permit: Permit(
            kind="run", subject=name, root=ROOT, generation=1, tombstone_watermark=0, benchmark_fence=0, sequence=4
        )
        for name, permit in held.items()
    }
    return replace(body, sequence=body.sequence + 1, runs=runs, permits={**body.permits, **permits})


@pytest.fixture
def size(tmp_path: Path) -> int:
    """A store with such a gate; the bytes of its state."""
    store = LocalStore(tmp_path / "store")
    gates.new_gate(store)
    gates.stage(store, ROOT)
    gates.attest(store, ROOT)
    for alias in ALIASES:
        admit(store, gates.DATASET, ROOT, alias, gates.call())
    view = read_gate(store, gates.DATASET)
    body = crowded(view.body)
    made = replace(view.transition, sequence=body.sequence, parent=view.state.head, body=gates.body_digest(body))
    envelope = seal(json.encode(made), TRANSITION_PAYLOAD, [gates.key("admin")])
    state = replace(view.state, body=body, head=digest_of(envelope), envelope=envelope.decode())
    data = json.encode(state)
    assert isinstance(store.swap(gate_key(gates.DATASET), data, view.token), Written)
    return len(data)


def test_a_thousand_permits_fit_into_half_a_megabyte(size: int) -> None:
    assert 100 * RUNS < size < 570 * RUNS


def test_status_says_how_many_there_are_and_shows_those_that_wait(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shardrel = shardrel_in(tmp_path, monkeypatch, capsys)
    where = ["--store", "store", "--dataset", gates.DATASET, "status"]
    everything = shardrel(*where)
    assert (len(everything["runs"]), len(everything["permits"])) == (RUNS, RUNS - WAITING + len(ALIASES))
    assert main(where) == 0
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) < 100
    assert f"1,000, {WAITING} without a permit" in shown
    assert "Open runs: 20 of 1,000" in shown
    assert all(f"run-{number:04d}" in shown for number in range(RUNS - WAITING, RUNS))

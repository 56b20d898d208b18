"""The S3 server is killed by SIGKILL at a request of a gate transition or of a save, and started again on its data.

A proxy sees each request; the server dies before it gets one, or when it has done it and before the client hears so.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.save import save
from shardrel.errors import OutcomeUnknownError, RunFailedError, ShardrelError, UnavailableError
from shardrel.gate import fence
from shardrel.gate.call import Call
from shardrel.gate.log import read_entries
from shardrel.gate.view import read_gate
from shardrel.store.s3 import S3Store
from tests.support import gates
from tests.support.checkpoints import ORDER, RUN, assert_equal_state, cut, load_on, state
from tests.support.fault_proxy import FaultProxy, Forward, Request, Response, fault_proxy
from tests.support.gates import DATASET, a_root, key
from tests.support.hosts import ServerHost
from tests.support.ranks import all_good
from tests.support.runs import a_deletion, started_run
from tests.support.seaweed import seaweed
from tests.support.stores import s3_store, use

ROOT = a_root("of a run")


@dataclass
class Dying:
    """What a proxy does with the requests of a client: it passes them on, and kills the server around one of them."""

    machine: ServerHost
    at: int
    after: bool
    seen: list[str] = field(default_factory=list)
    dead: bool = field(default=False)

    def __call__(self, request: Request, forward: Forward) -> Response | None:
        """Nobody hears anything from a dead server."""
        if self.dead:
            return None
        self.seen.append(request.method)
        if len(self.seen) != self.at:
            return forward(request)
        if self.after:
            forward(request)
        self.machine.kill()
        self.dead = True
        return None


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerHost]:
    data = tmp_path_factory.mktemp("server")
    machine = ServerHost(seaweed(data), [], data)
    try:
        yield machine
    finally:
        machine.kill()


@pytest.fixture
def between(machine: ServerHost, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    if machine.process is None:
        machine.start()
    use(machine.server, monkeypatch)
    with fault_proxy(machine.server.endpoint_url) as running:
        yield running


@dataclass(frozen=True, kw_only=True)
class Tried:
    """An action whose server died; ``requests`` are the methods that were sent until then, or to its end."""

    requests: tuple[str, ...]

    @property
    def points(self) -> list[tuple[int, bool]]:
        """Each request, before; and after where it writes."""
        numbered = list(enumerate(self.requests, 1))
        return [(at, after) for at, method in numbered for after in (False, True) if method == "PUT" or not after]

    died: bool


def attempt(machine: ServerHost, between: FaultProxy, at: int, *, after: bool, action: Any) -> Tried:
    """Do it while the server dies around a request; afterwards the server runs again."""
    dying = Dying(machine, at, after)
    between.reset()
    for method in ("GET", "PUT", "HEAD"):
        between.on(method, dying, 1_000_000)
    failed: ShardrelError | None = None
    try:
        action()
    except (UnavailableError, OutcomeUnknownError, RunFailedError) as err:
        failed = err
    between.reset()
    assert failed is None or (dying.dead and failed.exit_status in (3, 4)), failed
    if dying.dead:
        machine.start()
    return Tried(requests=tuple(dying.seen), died=dying.dead)


def advance(store: S3Store, folder: Path) -> None:
    call = Call(signers=[key("admin")], recorded_at=gates.NOW, operation_id=None, pending=folder)
    fence.advance(store, DATASET, "tombstones", [a_deletion(1)], call)


def a_transition(machine: ServerHost, between: FaultProxy, folder: Path, at: int, *, after: bool) -> Tried:
    """One advance that dies, and the same command again; it has one effect."""
    store = s3_store(machine.server.versioned, between.url)
    started_run(store, ROOT, RUN)
    before = read_gate(store, DATASET).body.sequence
    tried = attempt(machine, between, at, after=after, action=lambda: advance(store, folder))
    found = read_gate(store, DATASET).body
    assert (found.sequence, found.tombstones.watermark) in {(before, 0), (before + 1, 1)}
    advance(store, folder)
    body = read_gate(store, DATASET).body
    assert (body.sequence, body.tombstones.watermark) == (before + 1, 1)
    assert body.runs[RUN].permit is None
    assert [entry.kind for entry in read_entries(store, DATASET)].count("advance-fence") == 1
    return tried


def save_at(store: S3Store, step: int) -> None:
    save(SoloGroup(), store, state(step), dataset=DATASET, run=RUN, cut=cut(step), order=ORDER, signer=key("admin"))


def a_save(machine: ServerHost, between: FaultProxy, at: int, *, after: bool) -> Tried:
    """A second checkpoint that dies; a restore finds one whole generation, helped or not, and the job goes on."""
    store = s3_store(machine.server.versioned, between.url)
    started_run(store, ROOT, RUN)
    save_at(store, 1)
    tried = attempt(machine, between, at, after=after, action=lambda: save_at(store, 2))
    restored = all_good(load_on(store))[0]
    assert restored is not None
    assert (restored.generation, restored.passed_over) in {(0, ()), (1, ())}
    assert restored.cut.step == restored.generation + 1
    assert_equal_state(restored.state, state(restored.cut.step))
    save_at(store, 3)
    again = all_good(load_on(store))[0]
    assert again is not None
    assert again.generation == restored.generation + 1
    assert_equal_state(again.state, state(3))
    admissions = [entry for entry in read_entries(store, DATASET) if entry.kind == "admit-checkpoint"]
    assert len(admissions) == again.generation + 1
    return tried


def test_a_server_that_dies_with_the_swap_of_a_transition_in_its_hands(
    machine: ServerHost, between: FaultProxy, tmp_path: Path
) -> None:
    whole = a_transition(machine, between, tmp_path / "whole", 1_000, after=False)
    assert not whole.died
    assert a_transition(machine, between, tmp_path / "dies", len(whole.requests), after=True).died


@pytest.mark.slow
def test_a_server_that_dies_at_any_request_of_a_transition(
    machine: ServerHost, between: FaultProxy, tmp_path: Path
) -> None:
    whole = a_transition(machine, between, tmp_path / "whole", 1_000, after=False)
    for at, after in whole.points:
        assert a_transition(machine, between, tmp_path / f"{at}-{after}", at, after=after).died, (at, after)


@pytest.mark.slow
def test_a_server_that_dies_at_any_request_of_a_save(machine: ServerHost, between: FaultProxy) -> None:
    for at, after in a_save(machine, between, 1_000, after=False).points:
        assert a_save(machine, between, at, after=after).died, (at, after)

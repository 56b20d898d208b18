"""The register step by step: clients that are stopped before every store request, and lose answers.

Seeded schedules, and all schedules with few switches between two clients. Each play is recorded and held
against the chain; small ones against a search that knows nothing of the chain.
"""

import random
from collections.abc import Callable, Hashable, Sequence
from math import inf
from pathlib import Path
from typing import Any

import pytest

from shardrel import clock
from shardrel.errors import OutcomeUnknownError, ShardrelError, UnavailableError
from shardrel.gate import admit, register, runs
from shardrel.gate.log import read_entries
from shardrel.gate.view import read_gate
from shardrel.store.memory import MemoryStore
from shardrel.store.port import ObjectKey, Store
from tests.support import gates
from tests.support.histories import Attempt, Outcome, Recorder, read_attempts
from tests.support.linearizability import Call as Asked
from tests.support.linearizability import Link, NotLinearizableError, check_chain, explained
from tests.support.stage import Choice, Stage, Switches

ROOT = gates.a_root("one")
Verb = Callable[[Store, str], Any]


@pytest.fixture(scope="module")
def prepared() -> dict[ObjectKey, bytes]:
    """The bytes of a store with a gate, and a root that may be admitted."""
    store = MemoryStore()
    gates.new_gate(store)
    gates.stage(store, ROOT)
    gates.attest(store, ROOT)
    found = {key: store.read(key, max_bytes=1 << 26) for key in store.list("")}
    return {key: stored.data for key, stored in found.items() if stored is not None}


@pytest.fixture(autouse=True)
def _nobody_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries are what the schedule makes of them."""
    monkeypatch.setattr(clock, "sleep", lambda seconds: None)


def moves(alias: str, *, expect: int | None = None) -> Verb:
    def move(store: Store, operation: str) -> int:
        moved = admit.admit(
            store, gates.DATASET, ROOT, alias, gates.call(operation_id=operation), expect_generation=expect
        )
        return moved.generation

    return move


def starts(run: str) -> Verb:
    def start(store: Store, operation: str) -> str:
        return runs.start(store, gates.DATASET, "prod", gates.call(operation_id=operation), run_id=run).root

    return start


def reads(store: Store, _: str) -> int:
    return read_gate(store, gates.DATASET).body.sequence


class Play:
    """One play: clients with their verbs, the chooser, and what came of it."""

    def __init__(self, bytes_: dict[ObjectKey, bytes], folder: Path) -> None:
        self.store = MemoryStore()
        for key, data in bytes_.items():
            self.store.create(key, data)
        self._folder = folder
        self.names: list[str] = []

    def run(
        self, clients: dict[str, list[Verb]], choose: Callable[[Sequence[Choice]], Choice], *, faults: int = 0
    ) -> "Play":
        stage = Stage(self.store, choose, faults=faults)
        self.names = list(clients)
        for name in clients:
            (self._folder / name).unlink(missing_ok=True)

        def acts(name: str, verbs: list[Verb]) -> Callable[[Store], None]:
            recorder = Recorder(self._folder / name, name, lambda: stage.now)

            def act(store: Store) -> None:
                for number, verb in enumerate(verbs):
                    self._until_known(recorder, store, f"{name}-{number}", verb)

            return act

        stage.run({name: acts(name, verbs) for name, verbs in clients.items()})
        return self

    def _until_known(self, recorder: Recorder, store: Store, operation: str, verb: Verb) -> None:
        kind = "read" if verb is reads else "verb"
        while recorder.record(operation, kind, lambda: told(store, operation, verb)) == "unknown":
            pass

    def attempts(self) -> list[Attempt]:
        return [attempt for name in self.names for attempt in read_attempts(self._folder / name)]

    def chain(self) -> list[Link]:
        return [
            Link(
                sequence=entry.sequence,
                operation=entry.operation_id,
                answer=entry.effects.root if entry.kind == "start-run" else entry.effects.generation,
            )
            for entry in read_entries(self.store, gates.DATASET)
        ]

    def check(self) -> int:
        return check_chain(self.attempts(), self.chain())


def told(store: Store, operation: str, verb: Verb) -> tuple[Outcome, Any]:
    try:
        return "done", verb(store, operation)
    except (OutcomeUnknownError, UnavailableError):
        return "unknown", None
    except ShardrelError as err:
        return "refused", err.code


def seeded(seed: int, fault_chance: float = 0.1) -> Callable[[Sequence[Choice]], Choice]:
    chance = random.Random(seed)

    def choose(choices: Sequence[Choice]) -> Choice:
        faults = [choice for choice in choices if choice.what != "go"]
        return chance.choice(faults if faults and chance.random() < fault_chance else choices)

    return choose


def as_asked(attempts: list[Attempt]) -> list[Asked]:
    """Moves of one alias for the search: its state is the generation, and its answers are generations."""
    calls: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        calls.setdefault(attempt.operation, []).append(attempt)

    def one(tries: list[Attempt]) -> Asked:
        answer = next((attempt.answer for attempt in tries if attempt.outcome == "done"), None)

        def apply(state: Hashable) -> Hashable | None:
            assert isinstance(state, int)
            return state + 1 if answer in (None, state + 1) else None

        done = [attempt.returned for attempt in tries if attempt.outcome == "done" and attempt.returned is not None]
        return Asked(called=tries[0].called, returned=min(done, default=inf), apply=apply)

    return [one(tries) for tries in calls.values()]


@pytest.mark.parametrize("seed", [*range(40), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(40, 500))])
def test_moves_of_three_clients_are_explained(prepared: dict[ObjectKey, bytes], tmp_path: Path, seed: int) -> None:
    clients = {name: [moves("prod"), moves("prod")] for name in ("a", "b", "c")}
    play = Play(prepared, tmp_path).run(clients, seeded(seed), faults=4)
    assert play.check() == 6
    assert explained(as_asked(play.attempts()), 0, ends=6)


@pytest.mark.parametrize("seed", [*range(30), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(30, 300))])
def test_moves_runs_and_reads_are_explained(prepared: dict[ObjectKey, bytes], tmp_path: Path, seed: int) -> None:
    clients = {
        "a": [moves("prod"), moves("dev"), reads],
        "b": [moves("prod", expect=0), starts("u"), reads],
        "c": [starts("u"), starts("v"), reads, reads],
    }
    play = Play(prepared, tmp_path).run(clients, seeded(seed), faults=4)
    play.check()
    started = [link.operation for link in play.chain() if link.answer == ROOT]
    assert len({"b-1", "c-0"} & set(started)) <= 1, "two runs of one id"


@pytest.mark.parametrize("seed", range(20))
def test_one_operation_of_two_clients_has_one_effect(
    prepared: dict[ObjectKey, bytes], tmp_path: Path, seed: int
) -> None:
    """Two who ask under one operation id, as a command that is run again while the first one still lives."""

    def same(verb: Verb) -> Verb:
        return lambda store, _: verb(store, "shared")

    clients = {name: [same(moves("prod"))] for name in ("a", "b")}
    play = Play(prepared, tmp_path).run(clients, seeded(seed, 0.2), faults=3)
    assert [link.operation for link in play.chain()].count("shared") == 1
    assert {attempt.answer for attempt in play.attempts() if attempt.outcome == "done"} == {1}


@pytest.mark.parametrize("switches", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_all_schedules_with_few_switches(
    prepared: dict[ObjectKey, bytes], tmp_path: Path, switches: int, capsys: pytest.CaptureFixture[str]
) -> None:
    every, plays = Switches(switches), 0
    for _ in every.plays():
        play = Play(prepared, tmp_path).run({"a": [moves("prod")], "b": [moves("prod")]}, every.choose, faults=1)
        assert play.check() == 2
        plays += 1
    with capsys.disabled():
        print(f"\n  schedules with at most {switches} switches and lost answers: {plays}")
    assert plays > 30


def test_a_client_that_does_not_look_for_its_success_is_caught(
    prepared: dict[ObjectKey, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(register, "find_done", lambda store, view, operation: None)
    caught = 0
    for seed in range(30):
        play = Play(prepared, tmp_path).run({"a": [moves("prod")], "b": [moves("prod")]}, seeded(seed, 0.3), faults=6)
        try:
            play.check()
        except NotLinearizableError:
            caught += 1
    assert caught


def test_a_blind_write_is_caught(prepared: dict[ObjectKey, bytes], tmp_path: Path) -> None:
    """A store that ignores the token of a swap loses moves."""

    class Blind(MemoryStore):
        def swap(self, key: Any, data: bytes, expected: Any) -> Any:
            now = self.read(key, max_bytes=1 << 26)
            return super().swap(key, data, None if now is None else now.token)

    caught = 0
    for seed in range(10):
        play = Play(prepared, tmp_path)
        blind = Blind()
        for key, data in prepared.items():
            blind.create(key, data)
        play.store = blind
        try:
            play.run({"a": [moves("prod")], "b": [moves("prod")]}, seeded(seed)).check()
        except NotLinearizableError:
            caught += 1
    assert caught

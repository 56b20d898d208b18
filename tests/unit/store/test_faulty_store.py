"""The store with planned faults is itself tested: each fault does what it says and nothing else."""

import pytest

from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.drills.recording_store import RecordingStore
from shardrel.errors import UnavailableError
from shardrel.store.layout import commit_key, gate_key, run_key
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Unknown, Written

STATE = gate_key("data")
RECORD = run_key("run-1")


def faulty(*plan: Rule, seed: int = 0) -> FaultyStore:
    return FaultyStore(MemoryStore(), plan, seed)


@pytest.mark.parametrize(("fault", "lands"), [(Fault.UNKNOWN_BEFORE, False), (Fault.UNKNOWN_AFTER, True)])
@pytest.mark.parametrize("operation", ["create", "swap"])
def test_an_unknown_write_lands_or_not_as_planned(operation: str, fault: Fault, lands: bool) -> None:
    store = faulty(Rule(operation=operation, fault=fault))
    outcome = store.create(RECORD, b"1") if operation == "create" else store.swap(RECORD, b"1", None)
    assert isinstance(outcome, Unknown)
    assert (store.read(RECORD, max_bytes=1) is not None) == lands
    assert store.fired == [(operation, RECORD, fault)]


@pytest.mark.parametrize(("fault", "lands"), [(Fault.FAIL_BEFORE, False), (Fault.FAIL_AFTER, True)])
def test_a_failed_write_lands_or_not_as_planned(fault: Fault, lands: bool) -> None:
    store = faulty(Rule(operation="create", fault=fault))
    with pytest.raises(UnavailableError):
        store.create(RECORD, b"1")
    assert (store.read(RECORD, max_bytes=1) is not None) == lands


@pytest.mark.parametrize(
    ("fault", "seen"),
    [(Fault.TRUNCATED, b"12"), (Fault.FLIPPED, b"1224"), (Fault.WRONG_VERSION, b"5678"), (Fault.ABSENT, None)],
)
def test_a_read_shows_what_was_planned(fault: Fault, seen: bytes | None) -> None:
    store = faulty(Rule(operation="read", fault=fault))
    first = store.swap(STATE, b"1234", None)
    assert isinstance(first, Written)
    store.swap(STATE, b"5678", first.token)
    shown, healed = (store.read(STATE, max_bytes=4, version=first.version) for _ in range(2))
    assert (None if shown is None else shown.data) == seen
    assert healed is not None
    assert healed.data == b"1234"


def test_a_stale_listing_shows_the_one_before() -> None:
    store = faulty(Rule(operation="list", fault=Fault.STALE_LIST, skip=1))
    store.create(commit_key("run-1", 1), b"")
    assert len(list(store.list("runs/"))) == 1
    store.create(commit_key("run-1", 2), b"")
    assert len(list(store.list("runs/"))) == 1
    assert len(list(store.list("runs/"))) == 2


def test_rules_choose_by_prefix_count_and_hook() -> None:
    hooked: list[str] = []
    store = faulty(
        Rule(operation="create", fault=Fault.FAIL_BEFORE, prefix="runs/run-2/"),
        Rule(operation="create", fault=Fault.HOOK, hook=hooked.append, skip=1, times=1),
    )
    for run in ("run-1", "run-3", "run-4"):
        assert isinstance(store.create(run_key(run), b""), Written)
    with pytest.raises(UnavailableError):
        store.create(run_key("run-2"), b"")
    assert hooked == [run_key("run-3")]


def test_one_seed_gives_one_sequence_of_faults() -> None:
    def hits(seed: int) -> list[str]:
        store = faulty(Rule(operation="create", fault=Fault.UNKNOWN_AFTER, times=None, chance=0.5), seed=seed)
        for number in range(40):
            store.create(commit_key("run-1", number), b"")
        return [key for _, key, _ in store.fired]

    assert hits(1) == hits(1)
    assert hits(1) != hits(2)
    assert 5 < len(hits(1)) < 35


def test_a_recording_store_writes_down_each_request() -> None:
    store = RecordingStore(MemoryStore())
    store.create(RECORD, b"1")
    store.read(RECORD, max_bytes=1)
    store.swap(STATE, b"1", None)
    list(store.list("runs/"))
    store.delete(RECORD, "version")
    assert store.requests == [
        ("create", RECORD), ("read", RECORD), ("swap", STATE), ("list", "runs/"), ("delete", RECORD)
    ]  # fmt: skip

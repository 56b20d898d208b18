"""A renewal that was not answered is finished by the next one, and answers for no later one."""

from dataclasses import replace
from pathlib import Path

import pytest

from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.errors import UnavailableError
from shardrel.gate import runs
from shardrel.gate.call import Call
from shardrel.gate.log import read_entries
from shardrel.gate.view import read_gate
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Store
from tests.support.gates import DATASET, a_report, a_root, attach_report, call
from tests.support.runs import advance_tombstones, started_run

RUN = "run-1"


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    started_run(store, a_root("one"), RUN)
    return store


@pytest.fixture
def keeping(tmp_path: Path) -> Call:
    """A call as the command line makes it: its operation ids are kept until their outcome is known."""
    return replace(call(), pending=tmp_path / "operations")


def closed(store: Store, sequence: int) -> None:
    advance_tombstones(store, sequence)
    body = read_gate(store, DATASET).body
    attach_report(store, a_report(body, body.runs[RUN].root))


def unanswered(store: Store, keeping: Call) -> None:
    """A renewal whose swap lands, and whose answer is lost."""
    faulty = FaultyStore(store, [Rule(operation="swap", fault=Fault.FAIL_AFTER)])
    with pytest.raises(UnavailableError):
        runs.renew(faulty, DATASET, RUN, keeping)


def renewals(store: Store) -> int:
    return [entry.kind for entry in read_entries(store, DATASET)].count("renew-run")


def test_after_a_renewal_that_landed_the_next_one_is_another(store: MemoryStore, keeping: Call) -> None:
    closed(store, 1)
    unanswered(store, keeping)
    first = runs.renew(store, DATASET, RUN, keeping)
    assert (first.state, renewals(store)) == ("open", 1)
    closed(store, 2)
    second = runs.renew(store, DATASET, RUN, keeping)
    assert renewals(store) == 2
    assert second.permit in read_gate(store, DATASET).body.permits


def test_a_permit_that_a_fence_has_closed_since_is_no_answer(store: MemoryStore, keeping: Call) -> None:
    closed(store, 1)
    unanswered(store, keeping)
    closed(store, 2)
    again = runs.renew(store, DATASET, RUN, keeping)
    assert renewals(store) == 2
    assert again.permit in read_gate(store, DATASET).body.permits
    assert list(keeping.pending.iterdir()) == []  # type: ignore[union-attr]


def test_a_named_renewal_has_one_effect_and_says_that_it_is_closed(store: MemoryStore) -> None:
    closed(store, 1)
    named = call(operation_id="op")
    assert runs.renew(store, DATASET, RUN, named).state == "open"
    closed(store, 2)
    again = runs.renew(store, DATASET, RUN, named)
    assert (again.state, again.permit, renewals(store)) == ("closed", None, 1)

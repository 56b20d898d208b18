"""A revocation that was not answered is finished by the next one, and answers for none after it was lifted."""

from dataclasses import replace
from pathlib import Path

import pytest

from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.errors import UnavailableError
from shardrel.gate.admit import admit
from shardrel.gate.call import Call
from shardrel.gate.log import read_entries
from shardrel.gate.revoke import revoke
from shardrel.gate.view import read_gate
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Store
from tests.support import gates
from tests.support.gates import DATASET, a_root, call
from tests.support.runs import admit_root

ROOT = a_root("one")


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    gates.new_gate(store)
    admit_root(store, ROOT)
    return store


@pytest.fixture
def keeping(tmp_path: Path) -> Call:
    """A call as the command line makes it: its operation ids are kept until their outcome is known."""
    return replace(call(), pending=tmp_path / "operations")


def unanswered(store: Store, keeping: Call) -> None:
    """A revocation whose swap lands, and whose answer is lost."""
    faulty = FaultyStore(store, [Rule(operation="swap", fault=Fault.FAIL_AFTER)])
    with pytest.raises(UnavailableError):
        revoke(faulty, DATASET, ROOT, "bad.data", keeping)


def lifted(store: Store) -> None:
    gates.attest(store, ROOT)
    admit(store, DATASET, ROOT, "prod", call())
    assert state(store) == "ADMITTED"


def state(store: Store) -> str:
    return read_gate(store, DATASET).body.candidates[ROOT].state


def revocations(store: Store) -> int:
    return [entry.kind for entry in read_entries(store, DATASET)].count("revoke")


def test_an_unanswered_revocation_is_finished_with_one_effect(store: MemoryStore, keeping: Call) -> None:
    unanswered(store, keeping)
    assert revoke(store, DATASET, ROOT, "bad.data", keeping).repeated
    assert (state(store), revocations(store)) == ("INVALID", 1)


def test_after_it_was_lifted_the_next_revocation_is_another(store: MemoryStore, keeping: Call) -> None:
    unanswered(store, keeping)
    lifted(store)
    again = revoke(store, DATASET, ROOT, "bad.data", keeping)
    assert (again.repeated, state(store), revocations(store)) == (False, "INVALID", 2)


def test_a_named_operation_has_its_effect_once(store: MemoryStore) -> None:
    revoke(store, DATASET, ROOT, "bad.data", call(operation_id="op"))
    lifted(store)
    assert revoke(store, DATASET, ROOT, "bad.data", call(operation_id="op")).repeated
    assert (state(store), revocations(store)) == ("ADMITTED", 1)

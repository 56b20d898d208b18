"""The register: one operation, one effect, whatever the store answers; and who made a state."""

import pytest
from msgspec.structs import replace

from shardrel.canonical import json
from shardrel.digest import digest_of
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.drills.recording_store import RecordingStore
from shardrel.errors import (
    ConflictError,
    ErrorCode,
    IntegrityError,
    NotFoundError,
    OutcomeUnknownError,
    RefusedError,
    TrustError,
    UnavailableError,
)
from shardrel.gate.admit import Moved, admit
from shardrel.gate.call import Call, perform
from shardrel.gate.facts import Evidence
from shardrel.gate.fence import advance
from shardrel.gate.head import read_transition
from shardrel.gate.history import read_history
from shardrel.gate.log import read_entries
from shardrel.gate.policy import set_policy
from shardrel.gate.view import read_gate
from shardrel.records.fence import TombstoneEntry
from shardrel.records.gate import GateState
from shardrel.records.report import TRANSITION_PAYLOAD
from shardrel.records.transition import Admit, BeginPublication
from shardrel.store.layout import gate_key, object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Lost, Store, SwapOutcome
from shardrel.trust.envelope import peek, seal
from tests.support import gates

ROOT = gates.a_root("one")
KEY = gate_key(gates.DATASET)


@pytest.fixture
def store() -> MemoryStore:
    """A store with a gate and one root that may be admitted."""
    store = MemoryStore()
    gates.new_gate(store)
    gates.stage(store, ROOT)
    gates.attest(store, ROOT)
    return store


def flip(store: Store, operation_id: str | None = None, *, expect: int | None = None) -> Moved:
    return admit(store, gates.DATASET, ROOT, "prod", gates.call(operation_id=operation_id), expect_generation=expect)


def generation(store: Store) -> int:
    return read_gate(store, gates.DATASET).body.aliases["prod"].generation


def effects_of(store: Store, operation_id: str) -> int:
    return sum(entry.operation_id == operation_id for entry in read_entries(store, gates.DATASET))


def test_the_same_operation_again_answers_as_the_first_time(store: MemoryStore) -> None:
    first = flip(store, "op")
    flip(store, "another")
    again = flip(store, "op")
    assert (again.generation, again.permit, again.transition) == (first.generation, first.permit, first.transition)
    assert (first.repeated, again.repeated) == (False, True)
    assert (generation(store), effects_of(store, "op")) == (2, 1)


def test_an_operation_id_is_not_used_for_another_request(store: MemoryStore) -> None:
    flip(store, "op")
    with pytest.raises(RefusedError) as caught:
        admit(store, gates.DATASET, ROOT, "dev", gates.call(operation_id="op"))
    assert caught.value.code == ErrorCode.GATE_OPERATION_REUSED
    with pytest.raises(RefusedError):
        flip(store, "op", expect=0)


def test_a_refused_operation_has_no_effect_and_may_be_asked_again(store: MemoryStore) -> None:
    with pytest.raises(ConflictError) as caught:
        flip(store, "op", expect=1)
    assert caught.value.code == ErrorCode.GATE_GENERATION
    flip(store)
    assert flip(store, "op", expect=1).generation == 2


LANDS = {
    "intent-unknown": Rule(operation="create", prefix="gates/", fault=Fault.UNKNOWN_AFTER),
    "intent-unknown-not-landed": Rule(operation="create", prefix="gates/", fault=Fault.UNKNOWN_BEFORE),
    "envelope-unknown": Rule(operation="create", prefix="objects/", fault=Fault.UNKNOWN_AFTER),
    "envelope-unknown-not-landed": Rule(operation="create", prefix="objects/", fault=Fault.UNKNOWN_BEFORE),
    "swap-unknown": Rule(operation="swap", fault=Fault.UNKNOWN_AFTER),
    "swap-unknown-not-landed": Rule(operation="swap", fault=Fault.UNKNOWN_BEFORE),
}


@pytest.mark.parametrize("name", LANDS)
def test_an_unknown_outcome_stops_and_a_rerun_finishes_with_one_effect(store: MemoryStore, name: str) -> None:
    faulty = FaultyStore(store, [LANDS[name]])
    with pytest.raises(OutcomeUnknownError) as caught:
        flip(faulty, "op")
    assert caught.value.context["operationId"] == "op"
    assert len(faulty.fired) == 1
    assert flip(store, "op").generation == 1
    assert (generation(store), effects_of(store, "op")) == (1, 1)


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER])
def test_a_store_that_goes_away_at_the_swap_leaves_the_operation_to_be_finished(
    store: MemoryStore, fault: Fault
) -> None:
    with pytest.raises(UnavailableError) as caught:
        flip(FaultyStore(store, [Rule(operation="swap", fault=fault)]))
    again = flip(store, str(caught.value.context["operationId"]))
    assert (again.generation, again.repeated) == (1, fault is Fault.FAIL_AFTER)


def test_a_landed_flip_that_was_superseded_is_still_found(store: MemoryStore) -> None:
    """The pointer no longer shows ours; the history does."""
    with pytest.raises(OutcomeUnknownError):
        flip(FaultyStore(store, [Rule(operation="swap", fault=Fault.UNKNOWN_AFTER)]), "op")
    flip(store, "another")
    again = flip(store, "op", expect=None)
    assert (again.generation, again.repeated) == (1, True)
    assert generation(store) == 2


class LosesTheAnswer:
    """A store whose swap lands, and then says that somebody else's came first."""

    def __init__(self, inner: Store, times: int = 1) -> None:
        self._inner = inner
        self._left = times

    def __getattr__(self, name: str):  # type: ignore[no-untyped-def]
        return getattr(self._inner, name)

    def swap(self, key, data, expected) -> SwapOutcome:  # type: ignore[no-untyped-def]
        outcome = self._inner.swap(key, data, expected)
        if self._left:
            self._left -= 1
            return Lost()
        return outcome


def test_a_flip_whose_answer_was_lost_is_found_in_the_history_and_not_made_again(store: MemoryStore) -> None:
    moved = flip(LosesTheAnswer(store), "op")  # type: ignore[arg-type]
    assert (moved.generation, moved.repeated) == (1, True)
    assert (generation(store), effects_of(store, "op")) == (1, 1)


def test_a_lost_race_is_decided_again_on_the_fresh_state(store: MemoryStore) -> None:
    rival = Rule(operation="swap", fault=Fault.HOOK, hook=lambda _: flip(store, "rival") and None)
    assert flip(FaultyStore(store, [rival]), "op").generation == 2
    assert [entry.sequence for entry in read_entries(store, gates.DATASET)] == list(range(1, 6))


def test_a_lost_race_against_what_was_assumed_is_a_refusal(store: MemoryStore) -> None:
    rival = Rule(operation="swap", fault=Fault.HOOK, hook=lambda _: flip(store, "rival") and None)
    with pytest.raises(ConflictError) as caught:
        flip(FaultyStore(store, [rival]), "op", expect=0)
    assert caught.value.code == ErrorCode.GATE_GENERATION
    assert generation(store) == 1


def test_evidence_is_not_gathered_again_where_the_move_of_others_changes_nothing(store: MemoryStore) -> None:
    rival = Rule(operation="swap", fault=Fault.HOOK, hook=lambda _: flip(store, "rival") and None)
    recording = RecordingStore(FaultyStore(store, [rival]))
    assert flip(recording).generation == 2
    assert [operation for operation, _ in recording.requests].count("list") == 1


def test_evidence_that_an_advance_made_stale_is_gathered_again(store: MemoryStore) -> None:
    def advance_and_recheck(_: str) -> None:
        entry = TombstoneEntry(
            sequence=1, sample_id="s", source_id=None, source_version=None, content_digest=None, reason=None
        )
        advance(store, gates.DATASET, "tombstones", [entry], gates.call())
        gates.attach_report(store, gates.a_report(read_gate(store, gates.DATASET).body, ROOT))

    faulty = FaultyStore(store, [Rule(operation="swap", fault=Fault.HOOK, hook=advance_and_recheck)])
    assert flip(faulty).generation == 1
    assert read_gate(store, gates.DATASET).body.tombstones.watermark == 1


def test_endless_rivals_end_in_contention_and_the_operation_can_go_on() -> None:
    class AlwaysLost(MemoryStore):
        def swap(self, key, data, expected):  # type: ignore[no-untyped-def]
            return super().swap(key, data, expected) if expected is None else Lost()

    store = AlwaysLost()
    gates.new_gate(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shardrel.clock.sleep", lambda _: None)
        with pytest.raises(UnavailableError) as caught:
            perform(
                store,
                gates.DATASET,
                BeginPublication(publication="p", snapshot=ROOT),
                gates.call(),
                lambda _: Evidence(signers=frozenset()),
            )
    assert caught.value.code == ErrorCode.STORE_CONTENTION


def test_no_gate_is_absent() -> None:
    with pytest.raises(NotFoundError) as caught:
        read_gate(MemoryStore(), "none")
    assert caught.value.code == ErrorCode.GATE_ABSENT


def state_of(store: Store) -> GateState:
    return read_gate(store, gates.DATASET).state


def put_state(store: Store, state: GateState) -> None:
    stored = store.read(KEY, max_bytes=1 << 20)
    assert stored is not None
    store.swap(KEY, json.encode(state), stored.token)


def broken(store: Store) -> None:
    with pytest.raises(IntegrityError) as caught:
        read_gate(store, gates.DATASET)
    assert caught.value.code == ErrorCode.GATE_HISTORY


def forged(store: Store, signer: str) -> GateState:
    """A state whose alias was moved by somebody with write access and some key."""
    state = state_of(store)
    view = read_gate(store, gates.DATASET)
    alias = replace(state.body.aliases["prod"], generation=9, root=gates.a_root("evil"))
    body = replace(state.body, sequence=state.body.sequence + 1, aliases={"prod": alias})
    request = Admit(alias="prod", root=alias.root)
    transition = replace(
        view.transition,
        sequence=body.sequence,
        parent=state.head,
        request=request,
        body=gates.body_digest(body),
        request_digest=digest_of(json.encode(request)),
    )
    envelope = seal(json.encode(transition), TRANSITION_PAYLOAD, [gates.key(signer)])
    return replace(state, body=body, head=digest_of(envelope), envelope=envelope.decode())


@pytest.mark.parametrize("signer", ["publisher", "verifier", "approver", "stranger"])
def test_a_state_by_a_key_that_may_not_make_it_is_refused(store: MemoryStore, signer: str) -> None:
    flip(store)
    put_state(store, forged(store, signer))
    broken(store)


def test_a_body_that_its_envelope_did_not_make_is_refused(store: MemoryStore) -> None:
    flip(store)
    state = state_of(store)
    alias = replace(state.body.aliases["prod"], root=gates.a_root("evil"))
    put_state(store, replace(state, body=replace(state.body, aliases={"prod": alias})))
    broken(store)


def test_a_head_that_is_not_the_envelopes_digest_is_refused(store: MemoryStore) -> None:
    flip(store)
    put_state(store, replace(state_of(store), head=digest_of(b"other")))
    broken(store)


def test_a_state_of_another_dataset_is_refused(store: MemoryStore) -> None:
    gates.new_gate(store, dataset="other")
    put_state(store, read_gate(store, "other").state)
    broken(store)


def test_a_store_that_was_rolled_back_is_noticed_by_an_operation_that_saw_more(store: MemoryStore) -> None:
    old = state_of(store)
    flip(store)
    with pytest.raises(OutcomeUnknownError):
        flip(FaultyStore(store, [Rule(operation="swap", fault=Fault.UNKNOWN_BEFORE)]), "op")
    put_state(store, old)
    with pytest.raises(IntegrityError) as caught:
        flip(store, "op")
    assert caught.value.code == ErrorCode.GATE_HISTORY


def test_the_history_is_checked_from_its_beginning(store: MemoryStore) -> None:
    flip(store)
    view = read_gate(store, gates.DATASET)
    links = read_history(store, view)
    assert [link.transition.sequence for link in links] == [1, 2, 3, 4]
    assert peek(links[-1].envelope, TRANSITION_PAYLOAD) == json.encode(view.transition)


def test_a_history_with_a_forged_link_is_refused(store: MemoryStore) -> None:
    """A thief with a stolen releaser key hangs an honest-looking admission behind a link by a stranger."""
    flip(store)
    middle = forged(store, "stranger")
    store.create(object_key(middle.head), middle.envelope.encode())
    put_state(store, middle)
    below = read_transition(middle.envelope.encode())
    body = replace(middle.body, sequence=middle.body.sequence + 1)
    top = replace(below, sequence=body.sequence, parent=middle.head, body=gates.body_digest(body))
    envelope = seal(json.encode(top), TRANSITION_PAYLOAD, [gates.key("admin")])
    put_state(store, replace(middle, body=body, head=digest_of(envelope), envelope=envelope.decode()))
    assert read_gate(store, gates.DATASET)
    with pytest.raises(IntegrityError) as caught:
        read_entries(store, gates.DATASET)
    assert caught.value.code == ErrorCode.GATE_HISTORY


@pytest.mark.parametrize("up", ["parent", "head"])
def test_a_history_with_a_missing_link_is_refused(store: MemoryStore, up: str) -> None:
    flip(store)
    view = read_gate(store, gates.DATASET)
    link = view.transition.parent if up == "parent" else view.state.head
    assert link is not None
    hole = FaultyStore(store, [Rule(operation="read", prefix=object_key(link), fault=Fault.ABSENT)])
    with pytest.raises(NotFoundError) as caught:
        read_entries(hole, gates.DATASET)
    assert caught.value.code == ErrorCode.STORAGE_ABSENT


def test_a_signer_without_a_role_is_refused_before_anything_moves(store: MemoryStore) -> None:
    call = Call(signers=[gates.key("publisher")], recorded_at=gates.NOW, operation_id="op", pending=None)
    with pytest.raises(TrustError) as caught:
        admit(store, gates.DATASET, ROOT, "prod", call)
    assert caught.value.code == ErrorCode.TRUST_ROLE


def test_an_admission_asks_for_one_thing_at_a_time_in_this_order(store: MemoryStore) -> None:
    recording = RecordingStore(store)
    flip(recording)
    asked = [operation for operation, _ in recording.requests]
    assert asked == ["read", "create", "list", "read", "read", "create", "swap"]


def test_each_further_try_reads_only_what_came_since_the_last_one(store: MemoryStore) -> None:
    losses = 6
    rivals = Rule(
        operation="swap", fault=Fault.HOOK, times=losses, hook=lambda _: [flip(store) for _ in range(3)] and None
    )
    recording = RecordingStore(FaultyStore(store, [rivals]))
    assert flip(recording, "op").generation == 3 * losses + 1
    links = [key for operation, key in recording.requests if operation == "read" and key.startswith("objects/")]
    # Of the three links of each loss the two that the state itself does not hold.
    assert len(links) == 2 * losses


def test_an_admission_costs_five_requests_and_one_an_envelope(store: MemoryStore) -> None:
    recording = RecordingStore(store)
    view = read_gate(recording, gates.DATASET)
    admit(recording, gates.DATASET, ROOT, "prod", gates.call(), view=view)
    envelopes = len(list(store.list("attestations/")))
    assert len(recording.requests) == 5 + envelopes


def test_a_policy_that_the_state_does_not_name_is_refused(store: MemoryStore) -> None:
    state = state_of(store)
    mine = replace(gates.a_policy(), roles=replace(gates.a_policy().roles, releaser=gates.a_policy().roles.publisher))
    put_state(store, replace(state, policy=json.encode(mine).decode()))
    broken(store)


def test_the_state_holds_the_policy_of_now(store: MemoryStore) -> None:
    new = replace(gates.a_policy(), rollback_window=9)
    set_policy(store, gates.DATASET, new, gates.call())
    flip(store)
    view = read_gate(store, gates.DATASET)
    assert (view.policy, view.state.policy) == (new, json.encode(new).decode())

"""init, approve, revoke, rollback, policy, publication, status and log on a store."""

import pytest
from msgspec.structs import replace

from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.errors import (
    ErrorCode,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    RefusedError,
    TrustError,
)
from shardrel.gate.admit import admit
from shardrel.gate.approve import Approved, approve
from shardrel.gate.attestations import attach, list_envelopes
from shardrel.gate.evidence import gather
from shardrel.gate.init import init
from shardrel.gate.log import read_entries
from shardrel.gate.policy import set_policy
from shardrel.gate.publication import begin_publication, end_publication
from shardrel.gate.revoke import revoke
from shardrel.gate.rollback import rollback
from shardrel.gate.status import read_status
from shardrel.gate.view import read_gate
from shardrel.records.policy import Policy, Role
from shardrel.records.report import APPROVAL_PREDICATE, REPORT_PREDICATE, STATEMENT_PAYLOAD
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Store
from shardrel.trust.envelope import MAX_ENVELOPE_BYTES, seal
from shardrel.trust.statement import statement
from tests.support import gates

ROOT = gates.a_root("one")
OTHER = gates.a_root("two")
DATASET = gates.DATASET


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    gates.new_gate(store)
    for root in (ROOT, OTHER):
        gates.stage(store, root)
    return store


def governed_by(name: str) -> Policy:
    policy = gates.a_policy()
    return replace(policy, roles=replace(policy.roles, governor=Role(keys=gates.publics(name), threshold=1)))


def test_init_twice_is_harmless_and_with_another_policy_is_refused(store: MemoryStore) -> None:
    first = read_gate(store, DATASET).body
    again = init(store, DATASET, gates.a_policy(), gates.call())
    assert (again.gate_id, again.policy, again.already) == (first.gate_id, first.policy.digest, True)
    with pytest.raises(RefusedError) as caught:
        init(store, DATASET, replace(gates.a_policy(), rollback_window=9), gates.call())
    assert caught.value.code == ErrorCode.GATE_EXISTS


def test_two_who_create_a_gate_at_once_get_the_same_one() -> None:
    store = MemoryStore()
    rival = Rule(
        operation="swap", fault=Fault.HOOK, hook=lambda _: init(store, DATASET, gates.a_policy(), gates.call()) and None
    )
    made = init(FaultyStore(store, [rival]), DATASET, gates.a_policy(), gates.call())
    assert (made.gate_id, made.already) == (read_gate(store, DATASET).body.gate_id, True)


def test_an_init_of_unknown_outcome_is_finished_by_a_rerun() -> None:
    store = MemoryStore()
    lost = FaultyStore(store, [Rule(operation="swap", fault=Fault.UNKNOWN_BEFORE)])
    with pytest.raises(OutcomeUnknownError):
        init(lost, DATASET, gates.a_policy(), gates.call(operation_id="op"))
    made = init(store, DATASET, gates.a_policy(), gates.call(operation_id="op"))
    assert made.gate_id == read_gate(store, DATASET).body.gate_id


def test_a_gate_begins_with_a_sound_policy_by_its_governor() -> None:
    bad = governed_by("admin")
    bad = replace(bad, roles=replace(bad.roles, approver=Role(keys=gates.publics("verifier"), threshold=1)))
    with pytest.raises(InvalidInputError) as caught:
        init(MemoryStore(), DATASET, bad, gates.call())
    assert caught.value.code == ErrorCode.INPUT_POLICY
    with pytest.raises(TrustError) as role:
        init(MemoryStore(), DATASET, gates.a_policy(), gates.call("publisher"))
    assert role.value.code == ErrorCode.TRUST_ROLE


def say_yes(store: MemoryStore, root: str, name: str = "approver", when: str = gates.NOW) -> Approved:
    return approve(store, read_gate(store, DATASET), root, gates.key(name), when)


def test_approvals_are_counted_by_key(store: MemoryStore) -> None:
    first = say_yes(store, ROOT)
    again = say_yes(store, ROOT, when="2026-02-01T00:00:00Z")
    assert (first.approvals, again) == (1, first)
    assert list_envelopes(store, ROOT) == [first.envelope]
    with pytest.raises(TrustError) as caught:
        say_yes(store, ROOT, "publisher")
    assert caught.value.code == ErrorCode.TRUST_ROLE
    with pytest.raises(NotFoundError) as unknown:
        say_yes(store, gates.a_root("none"))
    assert unknown.value.code == ErrorCode.GATE_UNKNOWN_ROOT


def test_after_a_revocation_an_approver_has_to_say_yes_again(store: MemoryStore) -> None:
    gates.attest(store, ROOT)
    moved = admit(store, DATASET, ROOT, "prod", gates.call())
    gone = revoke(store, DATASET, ROOT, "bad-labels", gates.call())
    assert (gone.state, gone.closed_permits) == ("INVALID", (moved.permit,))
    gates.attach_report(store, gates.a_report(read_gate(store, DATASET).body, ROOT))
    with pytest.raises(RefusedError) as caught:
        admit(store, DATASET, ROOT, "prod", gates.call())
    assert caught.value.code == ErrorCode.GATE_NOT_APPROVED
    assert say_yes(store, ROOT).approvals == 1
    assert admit(store, DATASET, ROOT, "prod", gates.call()).generation == 2


def test_a_revocation_rests_on_a_failed_report_that_is_attached(store: MemoryStore) -> None:
    report = gates.attach_report(store, gates.a_report(read_gate(store, DATASET).body, ROOT, hits=1))
    assert revoke(store, DATASET, ROOT, "failed", gates.call(), report=report).state == "INVALID"
    with pytest.raises(TrustError) as caught:
        revoke(store, DATASET, OTHER, "failed", gates.call(), report=report)
    assert caught.value.code == ErrorCode.TRUST_SUBJECT
    with pytest.raises(InvalidInputError):
        revoke(store, DATASET, OTHER, "Because I say so", gates.call())


def test_a_rollback_is_a_higher_generation_at_the_old_root(store: MemoryStore) -> None:
    for root in (ROOT, OTHER):
        gates.attest(store, root)
        admit(store, DATASET, root, "prod", gates.call())
    back = rollback(store, DATASET, ROOT, "prod", gates.call(), expect_generation=2)
    assert (back.root, back.generation) == (ROOT, 3)


def test_a_repeated_move_that_was_overtaken_says_where_the_alias_stands(store: MemoryStore) -> None:
    for root in (ROOT, OTHER):
        gates.attest(store, root)
    first = admit(store, DATASET, ROOT, "prod", gates.call(operation_id="op-1"))
    assert (first.repeated, first.now) == (False, None)
    assert admit(store, DATASET, ROOT, "prod", gates.call(operation_id="op-1")).now is None
    admit(store, DATASET, OTHER, "prod", gates.call())
    again = admit(store, DATASET, ROOT, "prod", gates.call(operation_id="op-1"))
    assert (again.repeated, again.generation) == (True, 1)
    assert again.now is not None
    assert (again.now.root, again.now.generation) == (OTHER, 2)


def test_a_policy_changes_with_the_governors_of_both(store: MemoryStore) -> None:
    new = governed_by("governor-2")
    with pytest.raises(TrustError) as caught:
        set_policy(store, DATASET, new, gates.call())
    assert caught.value.code == ErrorCode.TRUST_THRESHOLD
    changed = set_policy(store, DATASET, new, gates.call("admin", "governor-2", operation_id="op"))
    assert changed.changed
    assert read_gate(store, DATASET).policy == new
    assert set_policy(store, DATASET, new, gates.call("governor-2")).changed is False
    assert set_policy(store, DATASET, new, gates.call("governor-2", operation_id="op")).changed is True
    assert [entry.kind for entry in read_entries(store, DATASET)][-1] == "set-policy"


def test_reports_of_a_verifier_whom_a_new_policy_dropped_no_longer_count(store: MemoryStore) -> None:
    gates.attest(store, ROOT)
    policy = gates.a_policy()
    new = replace(policy, roles=replace(policy.roles, verifier=Role(keys=gates.publics("verifier-2"), threshold=1)))
    set_policy(store, DATASET, new, gates.call())
    with pytest.raises(RefusedError) as caught:
        admit(store, DATASET, ROOT, "prod", gates.call())
    assert caught.value.code == ErrorCode.GATE_NOT_VERIFIED


def test_a_publication_that_is_run_again_goes_on(store: MemoryStore) -> None:
    publisher = gates.call("publisher")
    root = gates.a_root("three")
    assert begin_publication(store, DATASET, "p", gates.SNAPSHOT, publisher).resumed is False
    assert begin_publication(store, DATASET, "p", gates.SNAPSHOT, publisher).resumed is True
    with pytest.raises(RefusedError) as caught:
        begin_publication(store, DATASET, "p", ROOT, publisher)
    assert caught.value.code == ErrorCode.GATE_PUBLICATION_EXISTS
    assert end_publication(store, DATASET, "p", root, publisher) == "STAGED"
    assert end_publication(store, DATASET, "p", root, publisher) == "STAGED"
    with pytest.raises(NotFoundError) as ended:
        end_publication(store, DATASET, "p", None, publisher)
    assert ended.value.code == ErrorCode.GATE_NO_PUBLICATION


def test_runs_of_one_publication_at_the_same_time_all_learn_of_its_root(store: MemoryStore) -> None:
    publisher, root = gates.call("publisher"), gates.a_root("three")
    pin = begin_publication(store, DATASET, "p", gates.SNAPSHOT, publisher).sequence

    def end(where: Store, pin: int) -> str | None:
        return end_publication(where, DATASET, "p", root, publisher, pin=pin)

    # Another run ends it between what this one reads and what it writes.
    ended: list[str | None] = []
    first = Rule(operation="swap", fault=Fault.HOOK, hook=lambda _: ended.append(end(store, pin)))
    forestalled = FaultyStore(store, [first])
    assert end(forestalled, pin) == "STAGED"
    assert ended == ["STAGED"]
    # A third one has begun since, and a run under the former pin comes late.
    later = begin_publication(store, DATASET, "p", gates.SNAPSHOT, publisher).sequence
    assert later > pin
    assert end(store, pin) == "STAGED"
    assert list(read_gate(store, DATASET).body.publications) == ["p"]
    assert end(store, later) == "STAGED"
    assert not read_gate(store, DATASET).body.publications


def test_status_tells_a_verified_candidate_from_a_staged_one(store: MemoryStore) -> None:
    gates.attach_report(store, gates.a_report(read_gate(store, DATASET).body, ROOT))
    assert read_status(store, DATASET).candidates == {ROOT: "VERIFIED", OTHER: "STAGED"}
    gates.attest(store, OTHER)
    moved = admit(store, DATASET, OTHER, "prod", gates.call())
    revoke(store, DATASET, ROOT, "bad", gates.call())
    status = read_status(store, DATASET)
    assert status.candidates == {ROOT: "INVALID", OTHER: "ADMITTED"}
    assert (status.aliases["prod"].generation, list(status.permits)) == (1, [moved.permit])


def test_the_log_tells_the_whole_story_in_order(store: MemoryStore) -> None:
    gates.attest(store, ROOT)
    admit(store, DATASET, ROOT, "prod", gates.call(operation_id="flip"))
    entries = read_entries(store, DATASET)
    assert [entry.kind for entry in entries] == ["init", *["begin-publication", "end-publication"] * 2, "admit"]
    assert [entry.sequence for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert (entries[-1].operation_id, entries[-1].role, len(entries[-1].attestations)) == ("flip", "releaser", 2)
    assert [entry.parent for entry in entries] == [None, *(entry.digest for entry in entries[:-1])]


def test_evidence_ignores_what_nobody_who_counts_signed(store: MemoryStore) -> None:
    body = read_gate(store, DATASET).body
    report, approval = gates.a_report(body, ROOT), gates.an_approval(body, ROOT)

    def put(predicate: object, kind: str, about: str, signer: str, payload_type: str = STATEMENT_PAYLOAD) -> None:
        payload = statement(about, kind, predicate, "x")  # type: ignore[arg-type]
        attach(store, ROOT, seal(payload, payload_type, [gates.key(signer)]))

    put(report, REPORT_PREDICATE, ROOT, "publisher")
    put(report, REPORT_PREDICATE, ROOT, "stranger")
    put(report, REPORT_PREDICATE, OTHER, "verifier")
    put(report, REPORT_PREDICATE, ROOT, "verifier", "text/plain")
    put(approval, APPROVAL_PREDICATE, ROOT, "verifier")
    put({"note": 1}, REPORT_PREDICATE, ROOT, "verifier")
    put(report, "https://example.org/unknown", ROOT, "verifier")
    attach(store, ROOT, b"not an envelope")
    found = gather(store, ROOT, gates.a_policy())
    assert (found.reports, found.approvals, found.provenance) == ((), (), ())
    put(report, REPORT_PREDICATE, ROOT, "verifier")
    assert len(gather(store, ROOT, gates.a_policy()).reports) == 1


def test_an_attestation_that_a_listing_leaves_out_is_only_not_found(store: MemoryStore) -> None:
    gates.attest(store, ROOT)
    stale = FaultyStore(store, [Rule(operation="list", fault=Fault.STALE_LIST)])
    with pytest.raises(RefusedError) as caught:
        admit(stale, DATASET, ROOT, "prod", gates.call())
    assert caught.value.code == ErrorCode.GATE_NOT_VERIFIED
    assert admit(stale, DATASET, ROOT, "prod", gates.call()).generation == 1


def test_something_too_large_among_the_envelopes_of_a_root_stops_nobody(store: MemoryStore) -> None:
    gates.attest(store, ROOT)
    before = gather(store, ROOT, gates.a_policy())
    attach(store, ROOT, bytes(MAX_ENVELOPE_BYTES + 1))
    assert len(list_envelopes(store, ROOT)) > len(before.reports) + len(before.approvals)
    assert gather(store, ROOT, gates.a_policy()) == before
    assert admit(store, DATASET, ROOT, "prod", gates.call()).generation == 1

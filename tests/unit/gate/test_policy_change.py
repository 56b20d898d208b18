"""A change of policy: who has to sign it, what it leaves alone, and whose word counts no more."""

import pytest
from msgspec.structs import replace

from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.errors import ConflictError, ErrorCode, RefusedError, TrustError
from shardrel.gate.admit import admit
from shardrel.gate.approve import approve
from shardrel.gate.facts import Evidence, Refuse
from shardrel.gate.fence import advance
from shardrel.gate.history import read_history
from shardrel.gate.policy import PolicySet, set_policy
from shardrel.gate.rotations import find_rotation
from shardrel.gate.runs import renew, show, start
from shardrel.gate.status import read_status
from shardrel.gate.transitions import decide
from shardrel.gate.view import read_gate
from shardrel.records.policy import Policy, Role
from shardrel.records.transition import SetPolicy
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import put_record, unversioned
from shardrel.trust.keys import key_id
from tests.support import gates
from tests.unit.gate.test_fences import tombstones

ROOT = gates.a_root("one")


def policy(**roles: Role) -> Policy:
    """The default policy with some roles replaced."""
    default = gates.a_policy()
    return replace(default, roles=replace(default.roles, **roles))


def role(*names: str, threshold: int = 1) -> Role:
    return Role(keys=gates.publics(*names), threshold=threshold)


@pytest.fixture
def store() -> MemoryStore:
    """A gate with a verified and approved root."""
    store = MemoryStore()
    gates.new_gate(store)
    gates.stage(store, ROOT)
    gates.attest(store, ROOT)
    return store


def change(store: MemoryStore, new: Policy, *signers: str) -> PolicySet:
    return set_policy(store, gates.DATASET, new, gates.call(*signers))


def refused(store: MemoryStore) -> ErrorCode:
    with pytest.raises((RefusedError, TrustError)) as caught:
        admit(store, gates.DATASET, ROOT, "prod", gates.call())
    return caught.value.code


def test_the_governors_of_both_policies_sign_each_by_their_own_threshold(store: MemoryStore) -> None:
    two = policy(governor=role("g1", "g2", "g3", threshold=2))
    for signers, code in (
        (["admin"], ErrorCode.TRUST_THRESHOLD),
        (["admin", "g1"], ErrorCode.TRUST_THRESHOLD),
        (["g1", "g2"], ErrorCode.TRUST_ROLE),
    ):
        with pytest.raises(TrustError) as caught:
            change(store, two, *signers)
        assert caught.value.code == code
    assert change(store, two, "admin", "g1", "g2").changed
    # Back again: now the old policy's threshold is the one of two.
    for signers in (["admin"], ["admin", "g1"]):
        with pytest.raises(TrustError) as caught:
            change(store, policy(), *signers)
        assert caught.value.code == ErrorCode.TRUST_ROLE
    assert change(store, policy(), "admin", "g3", "g2").changed
    assert len(read_history(store, read_gate(store, gates.DATASET))) == 5


def test_a_change_of_all_governors_needs_enough_of_both_and_not_of_both_together(store: MemoryStore) -> None:
    change(store, policy(governor=role("g1", "g2", "g3", threshold=3)), "admin", "g1", "g2", "g3")
    all_new = policy(governor=role("g4", "g5", "g6", threshold=3))
    for signers, code in (
        (["g1", "g2", "g4", "g5", "g6"], ErrorCode.TRUST_ROLE),
        (["g1", "g2", "g3", "g4", "g5"], ErrorCode.TRUST_THRESHOLD),
        (["g1", "g2", "g3", "g4", "g5", "g5"], ErrorCode.TRUST_THRESHOLD),
    ):
        with pytest.raises(TrustError) as caught:
            change(store, all_new, *signers)
        assert caught.value.code == code
    assert change(store, all_new, "g1", "g2", "g3", "g4", "g5", "g6").changed


def test_running_jobs_go_on_and_aliases_stay(store: MemoryStore) -> None:
    admit(store, gates.DATASET, ROOT, "prod", gates.call())
    permit = start(store, gates.DATASET, "prod", gates.call(), run_id="job").permit
    before = read_gate(store, gates.DATASET).body
    change(store, policy(runner=role("runner-2"), verifier=role("verifier-2")))
    after = read_gate(store, gates.DATASET).body
    assert (after.runs, after.aliases, after.permits) == (before.runs, before.aliases, before.permits)
    assert show(store, gates.DATASET, "job").permit == permit


def test_a_report_by_a_key_that_left_counts_no_more(store: MemoryStore) -> None:
    change(store, policy(verifier=role("verifier-2")))
    assert refused(store) == ErrorCode.GATE_NOT_VERIFIED
    assert read_status(store, gates.DATASET).candidates == {ROOT: "STAGED"}
    gates.attach_report(store, gates.a_report(read_gate(store, gates.DATASET).body, ROOT), "verifier-2")
    assert read_status(store, gates.DATASET).candidates == {ROOT: "VERIFIED"}
    assert admit(store, gates.DATASET, ROOT, "prod", gates.call()).generation == 1


def test_an_approval_by_a_key_that_left_counts_no_more_and_a_raised_threshold_asks_for_more(
    store: MemoryStore,
) -> None:
    change(store, policy(approver=role("approver-2")))
    assert refused(store) == ErrorCode.GATE_NOT_APPROVED
    change(store, policy(approver=role("approver", "approver-2", threshold=2)))
    assert refused(store) == ErrorCode.GATE_NOT_APPROVED
    approve(store, read_gate(store, gates.DATASET), ROOT, gates.key("approver-2"), gates.NOW)
    assert admit(store, gates.DATASET, ROOT, "prod", gates.call()).generation == 1


def test_a_run_renews_by_what_the_new_policys_verifiers_said(store: MemoryStore) -> None:
    admit(store, gates.DATASET, ROOT, "prod", gates.call())
    start(store, gates.DATASET, "prod", gates.call(), run_id="job")
    advance(store, gates.DATASET, "tombstones", tombstones(1, 1), gates.call())
    gates.attach_report(store, gates.a_report(read_gate(store, gates.DATASET).body, ROOT))
    change(store, policy(verifier=role("verifier-2")))
    with pytest.raises(RefusedError) as caught:
        renew(store, gates.DATASET, "job", gates.call())
    assert caught.value.code == ErrorCode.PERMIT_RECHECK
    gates.attach_report(store, gates.a_report(read_gate(store, gates.DATASET).body, ROOT), "verifier-2")
    assert renew(store, gates.DATASET, "job", gates.call()).state == "open"


def test_an_admission_that_a_change_of_policy_overtakes_is_decided_by_the_new_one(store: MemoryStore) -> None:
    def overtake(_: str) -> None:
        change(store, policy(verifier=role("verifier-2")))

    racing = FaultyStore(store, [Rule(operation="swap", fault=Fault.HOOK, hook=overtake)])
    with pytest.raises(RefusedError) as caught:
        admit(racing, gates.DATASET, ROOT, "prod", gates.call())
    assert caught.value.code == ErrorCode.GATE_NOT_VERIFIED


def test_a_key_that_left_signs_no_transition(store: MemoryStore) -> None:
    change(store, policy(releaser=role("releaser-2")))
    with pytest.raises(TrustError) as caught:
        admit(store, gates.DATASET, ROOT, "prod", gates.call())
    assert caught.value.code == ErrorCode.TRUST_ROLE
    assert admit(store, gates.DATASET, ROOT, "prod", gates.call("releaser-2")).generation == 1


def test_a_change_made_of_another_policy_than_holds_is_refused(store: MemoryStore) -> None:
    """Two people change the policy at once: the second one must not take the first one's change back unseen."""
    seen = read_gate(store, gates.DATASET).body.policy
    change(store, policy(runner=role("runner-2")))
    with pytest.raises(ConflictError) as caught:
        set_policy(store, gates.DATASET, policy(verifier=role("verifier-2")), gates.call(), previous=seen)
    assert caught.value.code == ErrorCode.GATE_ASSUMPTION


@pytest.mark.parametrize(
    "unsound",
    [policy(runner=role("r", threshold=2)), policy(verifier=role("publisher")), policy(approver=role("a", "a"))],
    ids=["nobody-can-sign", "two-duties", "one-key-twice"],
)
def test_the_rule_itself_lets_no_unsound_policy_in(store: MemoryStore, unsound: Policy) -> None:
    """Also where a caller leaves the check of its verb out."""
    view = read_gate(store, gates.DATASET)
    request = SetPolicy(policy=unversioned(put_record(store, unsound)), previous=view.body.policy)
    evidence = Evidence(signers=frozenset(key_id(key) for key in gates.publics("admin")), policy=unsound)
    verdict = decide(view.body, request, evidence, view.policy)
    assert isinstance(verdict, Refuse)
    assert verdict.code == ErrorCode.INPUT_POLICY


def test_a_rotation_is_found_again_and_other_changes_are_not_taken_for_one(store: MemoryStore) -> None:
    change(store, policy(verifier=role("verifier-2")))
    change(store, policy(verifier=role("verifier-2"), approver=role("approver", "more")))
    change(store, policy(approver=role("approver", "more"), runner=role("runner-2")))
    view = read_gate(store, gates.DATASET)
    found = find_rotation(store, view, "verifier")
    assert found is not None
    assert (found.old.name, found.new.name) == ("verifier", "verifier-2")
    assert found == find_rotation(store, view, key_id(gates.key("verifier").public))
    for name in ("verifier-2", "more", "admin", "nobody"):
        assert find_rotation(store, view, name) is None

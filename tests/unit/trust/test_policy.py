"""Policies: who counts, and how often."""

import pytest
from msgspec.structs import replace

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.policy import Policy, PublicKey, Role
from shardrel.trust.keys import key_id
from shardrel.trust.policy import default_policy, is_met, keys_of, replaced, roles_of, validate
from tests.support.gates import a_policy, key, publics


def with_role(name: str, role: Role, *, separate: bool = True) -> Policy:
    """The default policy with one role replaced."""
    policy = a_policy()
    return replace(policy, roles=replace(policy.roles, **{name: role}), separate_duties=separate)


def refused(policy: Policy) -> None:
    with pytest.raises(InvalidInputError) as caught:
        validate(policy)
    assert caught.value.code == ErrorCode.INPUT_POLICY


def test_the_default_policy_is_sound() -> None:
    assert validate(a_policy()) == a_policy()


def test_a_threshold_counts_distinct_keys() -> None:
    role = Role(keys=publics("a", "b", "c"), threshold=2)
    ids = [key_id(public) for public in publics("a", "b", "x")]
    assert not is_met(role, frozenset({ids[0]}))
    assert not is_met(role, frozenset({ids[0], ids[2]}))
    assert is_met(role, frozenset(ids[:2]))


def test_one_key_under_two_names_is_refused() -> None:
    public = key("a").public
    alias = PublicKey(name="alias", scheme=public.scheme, public=public.public)
    refused(with_role("approver", Role(keys=(public, alias), threshold=2)))


def test_a_threshold_that_cannot_be_met_is_refused() -> None:
    refused(with_role("approver", Role(keys=publics("a"), threshold=2)))


@pytest.mark.parametrize("role", ["verifier", "approver"])
def test_with_separate_duties_the_publishers_key_is_nobody_elses(role: str) -> None:
    refused(with_role(role, Role(keys=publics("publisher"), threshold=1)))
    validate(with_role(role, Role(keys=publics("publisher"), threshold=1), separate=False))


def test_two_keys_do_not_share_a_name() -> None:
    other = replace(key("b").public, name="a")
    refused(with_role("approver", Role(keys=(key("a").public, other), threshold=1)))
    # Nor across roles.
    refused(with_role("runner", Role(keys=(replace(key("b").public, name="admin"),), threshold=1)))


def test_one_key_has_one_name() -> None:
    refused(with_role("runner", Role(keys=(replace(key("admin").public, name="runner"),), threshold=1)))


def test_no_threshold_asks_for_more_signatures_than_an_envelope_holds() -> None:
    many = publics(*(f"k{n}" for n in range(65)))
    validate(with_role("approver", Role(keys=many, threshold=64)))
    refused(with_role("approver", Role(keys=many, threshold=65)))


def test_a_key_may_stand_in_roles_that_need_not_be_separate() -> None:
    policy = a_policy()
    assert roles_of(policy, key("admin").public) == ("releaser", "governor", "runner")
    validate(with_role("releaser", Role(keys=publics("approver"), threshold=1)))


def test_a_replaced_key_leaves_every_role_and_no_threshold_changes() -> None:
    policy = with_role("runner", Role(keys=publics("a", "admin", "b"), threshold=2))
    new = replaced(policy, key("admin").public, key("admin-2").public)
    assert [public.name for public in new.roles.runner.keys] == ["a", "admin-2", "b"]
    assert (new.roles.runner.threshold, new.roles.governor.threshold) == (2, 1)
    assert roles_of(new, key("admin").public) == ()
    assert roles_of(new, key("admin-2").public) == ("releaser", "governor", "runner")
    assert new.roles.verifier == policy.roles.verifier


@pytest.mark.parametrize("by", ["verifier", "approver"])
def test_a_key_is_not_replaced_by_one_whose_duties_are_separate(by: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        replaced(a_policy(), key("publisher").public, key(by).public)
    assert caught.value.code == ErrorCode.INPUT_POLICY


def test_a_key_that_stands_nowhere_is_not_replaced() -> None:
    with pytest.raises(InvalidInputError) as caught:
        replaced(a_policy(), key("stranger").public, key("new").public)
    assert caught.value.code == ErrorCode.INPUT_POLICY


def test_two_keys_of_a_role_are_not_made_one() -> None:
    """Else a threshold of two could be left to one person, or to nobody."""
    policy = with_role("approver", Role(keys=publics("a", "b"), threshold=2))
    with pytest.raises(InvalidInputError) as caught:
        replaced(policy, key("a").public, key("b").public)
    assert caught.value.code == ErrorCode.INPUT_POLICY


def test_a_verifier_is_no_approver() -> None:
    refused(with_role("approver", Role(keys=publics("verifier"), threshold=1)))


def test_a_default_policy_needs_all_four_keys() -> None:
    with pytest.raises(InvalidInputError):
        default_policy({"admin": key("admin").public})


def test_the_keys_of_several_roles_are_distinct() -> None:
    assert [public.name for public in keys_of(a_policy(), ("releaser", "governor", "verifier"))] == [
        "admin",
        "verifier",
    ]

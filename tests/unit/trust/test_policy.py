"""Policies: who counts, and how often."""

import pytest
from msgspec.structs import replace

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.policy import Policy, PublicKey, Role
from shardrel.trust.keys import key_id
from shardrel.trust.policy import default_policy, is_met, keys_of, validate
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

"""Policy rules: roles, thresholds, distinct keys, separate duties. Pure. Source: schemas/SPEC.md#policy"""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Literal

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.policy import Policy, PublicKey, Role, Roles
from shardrel.trust.keys import check_public, key_id

RoleName = Literal["publisher", "verifier", "approver", "releaser", "governor", "runner"]
ROLE_NAMES: tuple[RoleName, ...] = ("publisher", "verifier", "approver", "releaser", "governor", "runner")

_SEPARATE: tuple[RoleName, ...] = ("publisher", "verifier", "approver")
_MAX_FENCE_STEP = 1_000_000
_ROLLBACK_WINDOW = 3


def role_of(policy: Policy, name: RoleName) -> Role:
    """The keys and the threshold of a role."""
    role: Role = getattr(policy.roles, name)
    return role


def keys_of(policy: Policy, names: Iterable[RoleName]) -> tuple[PublicKey, ...]:
    """The distinct keys of some roles."""
    return tuple({key_id(key): key for name in names for key in role_of(policy, name).keys}.values())


def members(role: Role, key_ids: frozenset[str]) -> frozenset[str]:
    """Those of the key ids that stand in the role."""
    return key_ids & {key_id(key) for key in role.keys}


def is_met(role: Role, key_ids: frozenset[str]) -> bool:
    """Whether enough distinct keys of the role are among these."""
    return len(members(role, key_ids)) >= role.threshold


def validate(policy: Policy) -> Policy:
    """Check that a policy can be met and counts nobody twice.

    Raises:
        InvalidInputError: ``input.policy``, ``input.key``.
    """
    for name in ROLE_NAMES:
        _validate_role(name, role_of(policy, name))
    if policy.separate_duties:
        for one, other in combinations(_SEPARATE, 2):
            if set(_ids(role_of(policy, one))) & set(_ids(role_of(policy, other))):
                raise InvalidInputError(
                    ErrorCode.INPUT_POLICY, f"with separate duties no key is {one} and {other}", role=one, other=other
                )
    return policy


def default_policy(keys: Mapping[str, PublicKey]) -> Policy:
    """One key each for publisher, verifier and approver; admin is releaser, governor and runner.

    Args:
        keys: By the names ``publisher``, ``verifier``, ``approver`` and ``admin``.

    Raises:
        InvalidInputError: ``input.policy`` when one is missing or stands twice.
    """
    try:
        publisher, verifier, approver, admin = (
            _single(keys[n]) for n in ("publisher", "verifier", "approver", "admin")
        )
    except KeyError as err:
        raise InvalidInputError(
            ErrorCode.INPUT_POLICY, "the default policy needs a publisher, a verifier, an approver and an admin key"
        ) from err
    roles = Roles(
        publisher=publisher, verifier=verifier, approver=approver, releaser=admin, governor=admin, runner=admin
    )
    return validate(
        Policy(roles=roles, separate_duties=True, max_fence_step=_MAX_FENCE_STEP, rollback_window=_ROLLBACK_WINDOW)
    )


def _single(key: PublicKey) -> Role:
    return Role(keys=(key,), threshold=1)


def _ids(role: Role) -> list[str]:
    return [key_id(check_public(key)) for key in role.keys]


def _validate_role(name: str, role: Role) -> None:
    ids = _ids(role)
    if len(set(ids)) != len(ids):
        raise InvalidInputError(ErrorCode.INPUT_POLICY, f"a key stands twice in the role {name}", role=name)
    if role.threshold > len(ids):
        raise InvalidInputError(
            ErrorCode.INPUT_POLICY, f"the role {name} needs more keys than it has", role=name, threshold=role.threshold
        )

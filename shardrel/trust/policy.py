"""Policy rules: roles, thresholds, distinct keys, separate duties. Pure. Source: schemas/SPEC.md#policy"""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Literal

import msgspec

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.policy import Policy, PublicKey, Role, Roles
from shardrel.trust.keys import check_public, key_id

RoleName = Literal["publisher", "verifier", "approver", "releaser", "governor", "runner"]
ROLE_NAMES: tuple[RoleName, ...] = ("publisher", "verifier", "approver", "releaser", "governor", "runner")

# What one envelope may hold, and so the most that a threshold can ask for.
MOST_SIGNATURES = 64

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
    """Check that a policy can be met, counts nobody twice, and calls every key by one name.

    Raises:
        InvalidInputError: ``input.policy``, ``input.key``.
    """
    for name in ROLE_NAMES:
        _validate_role(name, role_of(policy, name))
    _validate_names(policy)
    if policy.separate_duties:
        for one, other in combinations(_SEPARATE, 2):
            if set(_ids(role_of(policy, one))) & set(_ids(role_of(policy, other))):
                raise InvalidInputError(
                    ErrorCode.INPUT_POLICY, f"with separate duties no key is {one} and {other}", role=one, other=other
                )
    return policy


def replaced(policy: Policy, old: PublicKey, new: PublicKey) -> Policy:
    """The policy with one key in the place of another, in every role and with every threshold as it was.

    So whoever holds the new key counts as often as he did by the old one, and never twice.

    Raises:
        InvalidInputError: ``input.policy`` when the old key stands nowhere, or what comes of it is no policy.
    """
    gone = key_id(old)
    changed = {}
    for name in ROLE_NAMES:
        role = role_of(policy, name)
        keys = tuple(new if key_id(key) == gone else key for key in role.keys)
        changed[name] = msgspec.structs.replace(role, keys=keys)
    roles = Roles(**changed)
    if roles == policy.roles:
        raise InvalidInputError(ErrorCode.INPUT_POLICY, "the key stands in no role of the policy", key=old.name)
    return validate(msgspec.structs.replace(policy, roles=roles))


def roles_of(policy: Policy, key: PublicKey) -> tuple[RoleName, ...]:
    """The roles that a key stands in."""
    identity = frozenset({key_id(key)})
    return tuple(name for name in ROLE_NAMES if members(role_of(policy, name), identity))


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


def _validate_names(policy: Policy) -> None:
    """One name for two keys, or two for one, would let people take one key for another."""
    identities: dict[str, str] = {}
    called: dict[str, str] = {}
    for role in ROLE_NAMES:
        for key in role_of(policy, role).keys:
            identity = key_id(key)
            if identities.setdefault(key.name, identity) != identity:
                raise InvalidInputError(ErrorCode.INPUT_POLICY, "two keys have one name", key=key.name)
            if called.setdefault(identity, key.name) != key.name:
                raise InvalidInputError(ErrorCode.INPUT_POLICY, "one key has two names", key=key.name)


def _validate_role(name: str, role: Role) -> None:
    ids = _ids(role)
    if len(set(ids)) != len(ids):
        raise InvalidInputError(ErrorCode.INPUT_POLICY, f"a key stands twice in the role {name}", role=name)
    if role.threshold > len(ids):
        raise InvalidInputError(
            ErrorCode.INPUT_POLICY, f"the role {name} needs more keys than it has", role=name, threshold=role.threshold
        )
    if role.threshold > MOST_SIGNATURES:
        raise InvalidInputError(
            ErrorCode.INPUT_POLICY,
            f"an envelope has at most {MOST_SIGNATURES} signatures",
            role=name,
            threshold=role.threshold,
        )

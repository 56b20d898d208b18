"""Changes of policy that put one key in the place of another, found again in the history. Source: schemas/SPEC.md#policy."""

from dataclasses import dataclass

from shardrel.errors import InvalidInputError
from shardrel.gate.history import walk
from shardrel.gate.view import GateView
from shardrel.records.descriptor import Descriptor
from shardrel.records.policy import Policy, PublicKey
from shardrel.records.transition import SetPolicy
from shardrel.store.objects import get_record
from shardrel.store.port import Store
from shardrel.trust.keys import key_id
from shardrel.trust.policy import ROLE_NAMES, keys_of, replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """A rotation that is part of the history."""

    old: PublicKey
    new: PublicKey
    rules: Policy
    policy: Descriptor
    previous: Descriptor


def key_named(policy: Policy, name: str) -> PublicKey | None:
    """The policy's key of this name or id; None where there is none."""
    return next((key for key in keys_of(policy, ROLE_NAMES) if name in (key.name, key_id(key))), None)


def find_rotation(store: Store, view: GateView, name: str) -> Rotation | None:
    """The newest rotation that took away the key of this name, which whoever asks again means.

    One read a transition, and two a change of policy.

    Raises:
        ShardrelError: As ``history.walk``.
    """
    for link in walk(store, view):
        request = link.transition.request
        if isinstance(request, SetPolicy):
            rotation = _rotation(store, request, name)
            if rotation is not None:
                return rotation
    return None


def _rotation(store: Store, request: SetPolicy, name: str) -> Rotation | None:
    before, after = get_record(store, request.previous, Policy), get_record(store, request.policy, Policy)
    old = key_named(before, name)
    if old is None:
        return None
    known = {key_id(key) for key in keys_of(before, ROLE_NAMES)}
    fresh = [key for key in keys_of(after, ROLE_NAMES) if key_id(key) not in known]
    if len(fresh) != 1:
        return None
    try:
        is_it = replaced(before, old, fresh[0]) == after
    except InvalidInputError:
        return None
    if not is_it:
        return None
    return Rotation(old=old, new=fresh[0], rules=after, policy=request.policy, previous=request.previous)

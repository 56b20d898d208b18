"""Which local keys sign for a role, and how a verb reaches the gate."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shardrel import clock
from shardrel.cli.settings import Settings
from shardrel.errors import ErrorCode, InvalidInputError, ShardrelError

if TYPE_CHECKING:
    from shardrel.gate.call import Call
    from shardrel.gate.view import GateView
    from shardrel.records.policy import Policy
    from shardrel.store.port import Store
    from shardrel.trust.keys import SigningKey
    from shardrel.trust.policy import RoleName


def role_keys(settings: Settings, policy: "Policy", roles: Sequence["RoleName"]) -> "list[SigningKey]":
    """Private keys of the folder that stand in one of the roles; empty where none does.

    A file that is not one of our keys stands in no role, so it stops nobody who has the key that is needed.

    Raises:
        InvalidInputError, TrustError, FormatError: what reading a key raises, where no other stands in the roles.
    """
    from shardrel.trust import keyring
    from shardrel.trust.keys import key_id
    from shardrel.trust.policy import keys_of

    wanted = {key_id(key) for key in keys_of(policy, roles)}
    held: list[SigningKey] = []
    broken: list[ShardrelError] = []
    for name in keyring.names(settings.keys):
        try:
            if key_id(keyring.public(settings.keys, name)) in wanted:
                held.append(keyring.load(settings.keys, name))
        except ShardrelError as err:
            broken.append(err)
    if broken and not held:
        raise broken[0]
    return held


def signers(settings: Settings, policy: "Policy", *roles: "RoleName") -> "list[SigningKey]":
    """Like ``role_keys``, of which there must be one.

    Raises:
        InvalidInputError: ``input.key``.
    """
    keys = role_keys(settings, policy, roles)
    if not keys:
        raise InvalidInputError(
            ErrorCode.INPUT_KEY,
            f"no private key in {settings.keys} may sign as {' or '.join(roles)}; name its folder with --keys",
            role=roles[0],
        )
    return keys


def call(keys: "Sequence[SigningKey]", settings: Settings, operation_id: str | None = None) -> "Call":
    """A call by these keys; an operation id that is made here is kept beside them until its outcome is known."""
    from shardrel.gate.call import Call

    return Call(
        signers=keys, recorded_at=clock.now_utc(), operation_id=operation_id, pending=settings.keys / "operations"
    )


def call_as(settings: Settings, view: "GateView", *roles: "RoleName", operation_id: str | None = None) -> "Call":
    """A call by the local keys of the roles.

    Raises:
        InvalidInputError: ``input.key``.
    """
    return call(signers(settings, view.policy, *roles), settings, operation_id)


def the_gate(settings: Settings, store: "Store") -> "GateView":
    """The gate of the dataset, with its head's signature checked."""
    from shardrel.gate.view import read_gate

    return read_gate(store, settings.dataset)

"""Which keys sign for a role, and how a verb reaches the gate."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shardrel import clock
from shardrel.cli import passphrases
from shardrel.cli.access import the_key
from shardrel.cli.settings import Settings
from shardrel.errors import ErrorCode, InvalidInputError, ShardrelError, TrustError

if TYPE_CHECKING:
    from shardrel.gate.call import Call
    from shardrel.gate.view import GateView
    from shardrel.records.policy import Policy
    from shardrel.store.port import Store
    from shardrel.trust.policy import RoleName
    from shardrel.trust.signer import Signer

_DRAFT = "draft:"


def role_keys(settings: Settings, policy: "Policy", roles: Sequence["RoleName"]) -> "list[Signer]":
    """Keys that stand in one of the roles: of those named with ``--key``, else of the folder; empty where none does.

    A file in the folder that is not one of our keys stands in no role, so it stops nobody who has the key that is
    needed. A key that was named is needed.

    Raises:
        ShardrelError: What reading a key raises, where no other stands in the roles or it was named.
    """
    from shardrel.trust.keys import key_id
    from shardrel.trust.policy import keys_of

    wanted = frozenset(key_id(key) for key in keys_of(policy, roles))
    if settings.key:
        named = [the_key(settings, reference) for reference in settings.key if not reference.startswith(_DRAFT)]
        held = [signer for signer in named if key_id(signer.public) in wanted]
        return [*held, *_elsewhere(settings, policy, roles, held)]
    return _folder_keys(settings, wanted)


def _elsewhere(
    settings: Settings, policy: "Policy", roles: Sequence["RoleName"], held: "Sequence[Signer]"
) -> "list[Signer]":
    """Keys of the roles that sign in a draft: those that did, where that is enough, else all that could."""
    from shardrel.trust.draft import DraftSigner, read_draft
    from shardrel.trust.keys import key_id
    from shardrel.trust.policy import is_met, keys_of, role_of

    path = draft_of(settings)
    if path is None:
        return []
    here = frozenset(key_id(signer.public) for signer in held)
    absent = [key for key in keys_of(policy, roles) if key_id(key) not in here]
    draft = read_draft(path)
    signed = [key for key in absent if draft is not None and draft.signature_by(key) is not None]
    enough = any(is_met(role_of(policy, role), here | {key_id(key) for key in signed}) for role in roles)
    return [DraftSigner(public=key, path=path) for key in (signed if enough else absent)]


def draft_of(settings: Settings) -> Path | None:
    """The file that ``--key draft:FILE`` names; None where it names none."""
    named = [reference.removeprefix(_DRAFT) for reference in settings.key if reference.startswith(_DRAFT)]
    return Path(named[-1]) if named else None


def _recorded_at(settings: Settings) -> str:
    """The time of the draft, since that is what was signed; else now."""
    from shardrel.trust.draft import read_draft

    path = draft_of(settings)
    draft = None if path is None else read_draft(path)
    return clock.now_utc() if draft is None else draft.transition.recorded_at


def _folder_keys(settings: Settings, wanted: frozenset[str]) -> "list[Signer]":
    from shardrel.trust import keyring
    from shardrel.trust.keys import key_id

    held: list[Signer] = []
    broken: list[ShardrelError] = []
    for name in keyring.names(settings.keys):
        try:
            if key_id(keyring.public(settings.keys, name, ask=passphrases.ask)) in wanted:
                held.append(the_key(settings, name))
        except ShardrelError as err:
            broken.append(err)
    if broken and not held:
        raise broken[0]
    return held


def signers(settings: Settings, policy: "Policy", *roles: "RoleName") -> "list[Signer]":
    """Like ``role_keys``, of which there must be one.

    Raises:
        InvalidInputError: ``input.key``.
        TrustError: ``trust.role`` where no key that was named may sign so.
    """
    keys = role_keys(settings, policy, roles)
    wanted = " or ".join(roles)
    if not keys and settings.key:
        raise TrustError(ErrorCode.TRUST_ROLE, f"the policy knows no key named with --key as {wanted}", role=roles[0])
    if not keys:
        raise InvalidInputError(
            ErrorCode.INPUT_KEY,
            f"no private key in {settings.keys} may sign as {wanted}; name its folder with --keys, or a key with --key",
            role=roles[0],
        )
    return keys


def publishers(settings: Settings, policy: "Policy") -> "tuple[list[Signer], list[Signer]]":
    """Keys that say how a root was made, and those that sign the transitions in their place where too few are here.

    Of publishers all that are named, or as many of the folder as the policy asks for. Nothing but transitions is signed
    in a draft.

    Raises:
        InvalidInputError: ``input.key``.
        TrustError: ``trust.role``; ``trust.threshold-not-met`` where the policy asks for more than are here, and no
            releaser is.
    """
    from shardrel.trust.draft import DraftSigner
    from shardrel.trust.keys import key_id
    from shardrel.trust.policy import is_met

    role = policy.roles.publisher
    held = [signer for signer in signers(settings, policy, "publisher") if not isinstance(signer, DraftSigner)]
    keys = list({key_id(signer.public): signer for signer in held}.values())
    if len(keys) >= role.threshold:
        return (keys if settings.key else keys[: role.threshold]), []
    releasers = role_keys(settings, policy, ["releaser"])
    if not keys or not is_met(policy.roles.releaser, frozenset(key_id(signer.public) for signer in releasers)):
        raise TrustError(
            ErrorCode.TRUST_THRESHOLD,
            f"the policy asks for {role.threshold} publishers; name the key of each with --key, or a releaser's beside one",
            threshold=role.threshold,
            signatures=len(keys),
        )
    return keys, releasers


def the_signer(settings: Settings, policy: "Policy", role: "RoleName") -> "Signer":
    """The one key of a role that is here; of several in the folder, the one that is named like the role.

    Raises:
        InvalidInputError: ``input.key`` where there is none, or it is not clear which.
        TrustError: ``trust.role``.
    """
    keys = signers(settings, policy, role)
    if len(keys) > 1:
        keys = [signer for signer in keys if signer.public.name == role]
    if len(keys) != 1:
        raise InvalidInputError(ErrorCode.INPUT_KEY, f"several keys here may sign as {role}; name one with --key")
    return keys[0]


def call(keys: "Sequence[Signer]", settings: Settings, operation_id: str | None = None) -> "Call":
    """A call by these keys; an operation id that is made here is kept beside them until its outcome is known."""
    from shardrel.gate.call import Call

    return Call(
        signers=keys,
        recorded_at=_recorded_at(settings),
        operation_id=operation_id,
        pending=settings.keys / "operations",
    )


def call_as(settings: Settings, view: "GateView", *roles: "RoleName", operation_id: str | None = None) -> "Call":
    """A call by the keys of the roles that are here.

    Raises:
        InvalidInputError: ``input.key``.
        TrustError: ``trust.role``.
    """
    return call(signers(settings, view.policy, *roles), settings, operation_id)


def the_gate(settings: Settings, store: "Store") -> "GateView":
    """The gate of the dataset, with its head's signature checked."""
    from shardrel.gate.view import read_gate

    return read_gate(store, settings.dataset)

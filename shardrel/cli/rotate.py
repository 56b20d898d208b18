"""``shardrel keys rotate``: another key in the place of one, in every role of the policy."""

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from shardrel.cli import passphrases
from shardrel.cli.access import the_key, the_store_to_write
from shardrel.cli.keys import described
from shardrel.cli.output import Result
from shardrel.cli.policy import restatement_table, restatements
from shardrel.cli.settings import Settings
from shardrel.cli.signing import call, role_keys, the_gate
from shardrel.errors import ErrorCode, InvalidInputError, TrustError

if TYPE_CHECKING:
    from shardrel.gate.view import GateView
    from shardrel.records.policy import Policy, PublicKey
    from shardrel.store.port import Store
    from shardrel.trust.signer import Signer

_PROOF = b"shardrel: this key signs"


def rotate(
    settings: Settings,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The key as the policy calls it, or its id.")],
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="REF", help="A key that is there: a name, a PEM file or awskms:ARN; else a new one."
        ),
    ] = None,
    scheme: Annotated[
        Literal["ed25519", "ecdsa-sha2-nistp256"] | None,
        typer.Option(help="Kind of a new key; that of the old one without."),
    ] = None,
    passphrase: Annotated[bool, typer.Option("--passphrase", help="Encrypt a new key.")] = False,
) -> Result:
    """Put a new key in the place of one, in every role; says what has to be said again by it."""
    from shardrel.gate.policy import set_policy
    from shardrel.gate.rotations import key_named
    from shardrel.gate.standing import restated
    from shardrel.trust.policy import replaced, roles_of

    store = the_store_to_write(settings)
    view = the_gate(settings, store)
    old = key_named(view.policy, name)
    if old is None:
        return _again(settings, store, view, name)
    new = _new_key(settings, view.policy, old, to, scheme or old.scheme, passphrase=passphrase)
    rules = replaced(view.policy, old, new.public)
    by = _governors(settings, view.policy, rules, new)
    lost = restated(store, view, rules)
    done = set_policy(store, settings.dataset, rules, call(by, settings), previous=view.body.policy)
    runs = sorted(view.body.runs) if "runner" in roles_of(view.policy, old) else []
    return _shown(settings, (old, new.public), rules, done.policy, restatements(lost), runs=runs)


def _again(settings: Settings, store: "Store", view: "GateView", name: str) -> Result:
    """What an earlier try, whose outcome may not have been told, has done already.

    Raises:
        InvalidInputError: ``input.key`` where no such key stood in a policy of this gate.
    """
    from shardrel.gate.policy import set_policy
    from shardrel.gate.rotations import find_rotation

    there = find_rotation(store, view, name)
    if there is None:
        raise InvalidInputError(ErrorCode.INPUT_KEY, "the policy has no such key; see: shardrel policy show", key=name)
    if there.policy == view.body.policy:
        # It holds, so nothing is signed; an operation id that was kept for it is given up.
        set_policy(store, settings.dataset, there.rules, call([], settings), previous=there.previous)
    return _shown(settings, (there.old, there.new), there.rules, there.policy.digest, [], runs=[], repeated=True)


def _new_key(
    settings: Settings,
    policy: "Policy",
    old: "PublicKey",
    to: str | None,
    scheme: 'Literal["ed25519", "ecdsa-sha2-nistp256"]',
    *,
    passphrase: bool,
) -> "Signer":
    """The key that follows: made durable, read back and tried, before any policy names it.

    A new one that an interrupted rotation left in the folder, and that the policy does not know, is taken up again.
    """
    from shardrel.trust import keyring
    from shardrel.trust.keys import verifies

    if to is None:
        to = _next_name(settings, policy, old.name)
        chosen = passphrases.choose() if passphrase else None
        keyring.ensure(settings.keys, (to,), scheme, passphrase=chosen)
    new = the_key(settings, to)
    if not verifies(new.public, new.sign(_PROOF), _PROOF):
        raise TrustError(ErrorCode.TRUST_SIGNER, "the new key does not sign", key=new.public.name)
    return new


def _next_name(settings: Settings, policy: "Policy", name: str) -> str:
    """``verifier-2`` after ``verifier``, and so on: the first that neither the policy nor another policy's key has."""
    from shardrel.trust.policy import ROLE_NAMES, keys_of

    known = {key.name for key in keys_of(policy, ROLE_NAMES)}
    found = re.fullmatch(r"(.+)-([1-9][0-9]{0,5})", name)
    base, number = (found[1], int(found[2])) if found else (name, 1)
    while (candidate := f"{base}-{(number := number + 1)}") in known:
        pass
    return candidate


def _governors(settings: Settings, old: "Policy", new: "Policy", key: "Signer") -> "list[Signer]":
    """Keys here that sign the change: enough for the old policy and for the new one, or nothing is done.

    Raises:
        TrustError: ``trust.threshold-not-met``.
    """
    from shardrel.trust.keys import key_id
    from shardrel.trust.policy import is_met

    held = [*role_keys(settings, old, ["governor"]), *role_keys(settings, new, ["governor"]), key]
    by = {key_id(signer.public): signer for signer in held}
    for policy in (old, new):
        if not is_met(policy.roles.governor, frozenset(by)):
            raise TrustError(
                ErrorCode.TRUST_THRESHOLD,
                "too few governors' keys are here to change the policy; nothing was changed. "
                "Name them with --key, or change a file of the policy and let them sign it: shardrel policy set",
                threshold=policy.roles.governor.threshold,
            )
    governing = {key_id(public) for policy in (old, new) for public in policy.roles.governor.keys}
    return [signer for identity, signer in by.items() if identity in governing]


def _shown(
    settings: Settings,
    keys: "tuple[PublicKey, PublicKey]",
    rules: "Policy",
    policy: str,
    again: list[dict[str, Any]],
    *,
    runs: list[str],
    repeated: bool = False,
) -> Result:
    from shardrel.trust.keys import key_id
    from shardrel.trust.policy import roles_of

    old, new = keys
    roles = list(roles_of(rules, new))
    file = settings.keys / f"{old.name}.pem"
    left = str(file) if file.is_file() else None
    return Result(
        data={
            "keys": [described(new)],
            "policyDigest": policy,
            "roles": roles,
            "retired": {"name": old.name, "keyId": key_id(old), "file": left},
            "again": again,
            "runs": runs,
            "repeated": repeated,
        },
        headline=f"{new.name} stands in the place of {old.name}" + (" since an earlier try" if repeated else ""),
        facts=[
            ("roles", ", ".join(roles)),
            ("key id", key_id(new)),
            ("policy", policy),
            *([("open runs", f"{', '.join(runs)}: their next checkpoint needs the new key")] if runs else []),
            *([("left behind", f"{left}, which this policy needs no more")] if left else []),
        ],
        tables=restatement_table(again),
    )

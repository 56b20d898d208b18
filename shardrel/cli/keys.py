"""``shardrel keys``: local private keys."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shardrel.cli import passphrases
from shardrel.cli.access import the_key
from shardrel.cli.decryption import with_encryption_keys
from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings
from shardrel.cli.words import counted

if TYPE_CHECKING:
    from shardrel.records.policy import PublicKey


def make(
    settings: Settings,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Names; without one those of the default roles.")
    ] = None,
    scheme: Annotated[
        Literal["ed25519", "ecdsa-sha2-nistp256"], typer.Option(help="Kind of the keys that are made.")
    ] = "ed25519",
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help="Encrypt them; it is asked for, or in SHARDREL_PASSPHRASE_FILE.")
    ] = False,
) -> Result:
    """Make private keys that are not there yet; none is ever replaced."""
    from shardrel.trust import keyring
    from shardrel.trust.private_files import keep_out_of_git

    chosen = passphrases.choose() if passphrase else None
    before, fresh = frozenset(keyring.names(settings.keys)), not settings.keys.exists()
    asked = keyring.ensure(settings.keys, tuple(names or keyring.DEFAULT_NAMES), scheme, passphrase=chosen)
    keep_out_of_git(settings.keys, fresh=fresh)
    made = sorted(asked.keys() - before)
    shown = _listed(list(asked.values()), settings)
    there = f", {counted(len(asked) - len(made), 'key')} of the names there before" if len(made) < len(asked) else ""
    headline = f"{counted(len(made), 'key')} made in {settings.keys}{there}"
    return replace(shown, data={**shown.data, "made": made}, headline=headline)


def show(settings: Settings) -> Result:
    """Show the public half of every key in the folder, or of those that --key names."""
    from shardrel.trust import keyring

    if settings.key:
        return _listed([the_key(settings, reference).public for reference in settings.key], settings)
    names = keyring.names(settings.keys)
    found = [keyring.public(settings.keys, name, ask=passphrases.ask) for name in names]
    return with_encryption_keys(_listed(found, settings), settings.keys)


def described(key: "PublicKey") -> dict[str, str]:
    """A public key for scripts: what a policy names, and its id."""
    from shardrel.trust.keys import key_id

    return {"name": key.name, "scheme": key.scheme, "keyId": key_id(key), "public": key.public}


def _listed(found: "list[PublicKey]", settings: Settings) -> Result:
    from shardrel.trust.keys import key_id

    return Result(
        data={
            "keys": [described(key) for key in found],
        },
        headline=counted(len(found), "key") + ("" if settings.key else f" in {settings.keys}"),
        tables=[Table(columns=["name", "scheme", "key id"], rows=[(k.name, k.scheme, key_id(k)) for k in found])],
    )

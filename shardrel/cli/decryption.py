"""Key-encryption keys on the command line: how they are named, opened and made. No key is ever printed."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings

if TYPE_CHECKING:
    from shardrel.trust.key_encryption import KeyEncryption, Unlocked
    from shardrel.trust.key_files import FileKey

VARIABLE = "SHARDREL_ENCRYPTION_KEY"

Encrypt = Annotated[
    str | None,
    typer.Option("--encrypt", metavar="KEYREF", help="Encrypt it; file:PATH or awskms:ARN.", show_default=False),
]
Decrypt = Annotated[
    list[str] | None,
    typer.Option(
        "--decrypt",
        metavar="KEYREF",
        help=f"Key of what is encrypted; repeatable. (env {VARIABLE})",
        envvar=VARIABLE,
        show_envvar=False,
        show_default=False,
    ),
]


def opened(reference: str | None) -> "KeyEncryption | None":
    """The key that a reference names; None without one.

    Raises:
        InvalidInputError: ``input.key``.
        TrustError: ``trust.key-file``.
    """
    from shardrel.kms.key_reference import open_key

    return None if reference is None else open_key(reference)


def unlocked(references: list[str] | None, *more: "KeyEncryption | None") -> "Unlocked":
    """What may be read with the keys that there are.

    Raises:
        InvalidInputError: ``input.key``.
        TrustError: ``trust.key-file``.
    """
    from shardrel.kms.key_reference import open_key
    from shardrel.trust.key_encryption import Unlocked

    return Unlocked([*(key for key in more if key is not None), *(open_key(one) for one in references or [])])


def with_encryption_keys(shown: Result, folder: Path) -> Result:
    """A list of keys, and the key-encryption keys of the folder beside them: by their fingerprints."""
    from shardrel.trust.key_files import SUFFIX, load_key_file

    found = [(path, load_key_file(path)) for path in sorted(folder.glob(f"*{SUFFIX}"))]
    listed = [{"name": path.name.removesuffix(SUFFIX), **_described(path, key)} for path, key in found]
    rows = [(one["name"], one["version"], one["fingerprint"]) for one in listed]
    table = Table(title="Key-encryption keys", columns=["name", "version", "fingerprint"], rows=rows)
    tables = [*shown.tables, table] if rows else shown.tables
    return replace(shown, data={**shown.data, "encryptionKeys": listed}, tables=tables)


def _described(path: Path, key: "FileKey") -> dict[str, str]:
    return {"keyRef": f"file:{path}", "fingerprint": key.fingerprint, "version": key.version}


def make_encryption(
    settings: Settings,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the file, in the folder of keys.")],
    version: Annotated[str, typer.Option(metavar="V", help="A label that a later key has another one of.")] = "1",
) -> Result:
    """Make a key that encrypts data keys; none is ever replaced."""
    from shardrel.trust.key_files import make_key_file
    from shardrel.trust.private_files import keep_out_of_git

    fresh = not settings.keys.exists()
    path, key = make_key_file(settings.keys, name, version)
    keep_out_of_git(settings.keys, fresh=fresh)
    return Result(
        data=_described(path, key),
        headline=f"A key-encryption key lies in {path}: without it, what it encrypts is lost",
        facts=[("reference", f"file:{path}"), ("fingerprint", key.fingerprint), ("version", key.version)],
    )

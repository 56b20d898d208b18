"""Keyring: a folder of local private keys, a PEM file and a public record each. Source: schemas/SPEC.md#keys

``<name>.pem`` is PKCS #8 with mode 0600, under a passphrase where one was given; ``<name>.pub.json`` is the
canonical ``PublicKey`` record; the folder has mode 0700. Files are created whole or not at all, and never
replaced. Who owns them and who else may write there is checked whenever a key is read.
"""

import re
from pathlib import Path

from shardrel.canonical import json
from shardrel.errors import ErrorCode, InvalidInputError, TrustError
from shardrel.records.policy import PublicKey
from shardrel.trust.keys import Ask, Scheme, SigningKey, check_public, from_pem, generate, no_passphrase
from shardrel.trust.private_files import (
    MAX_KEY_FILE,
    check_folder,
    create,
    create_private,
    make_folder,
    own_folder,
    read_private,
)

PUBLISHER = "publisher"
VERIFIER = "verifier"
APPROVER = "approver"
ADMIN = "admin"
DEFAULT_NAMES = (PUBLISHER, VERIFIER, APPROVER, ADMIN)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def save(folder: Path, key: SigningKey, *, passphrase: bytes | None = None) -> None:
    """Store a key pair under its name.

    Raises:
        InvalidInputError: ``input.key`` for a bad name or an empty passphrase, or when another key has the name.
        TrustError: ``trust.key-file`` when the folder is not a private one.

    Effects: creates the folder, then the private file, then the public one; a crash leaves a prefix
        of them, and ``public`` derives the last again.
    """
    _check_name(key.name)
    own_folder(folder)
    if not create_private(folder / f"{key.name}.pem", key.to_pem(passphrase)):
        raise InvalidInputError(
            ErrorCode.INPUT_KEY, "there is a key of this name; keys are never replaced", key=key.name
        )
    create(folder / f"{key.name}.pub.json", json.encode(key.public), 0o644)


def ensure(
    folder: Path,
    names: tuple[str, ...] = DEFAULT_NAMES,
    scheme: Scheme = "ed25519",
    *,
    passphrase: bytes | None = None,
) -> dict[str, PublicKey]:
    """Make the keys that are not there yet; twice is harmless.

    Args:
        folder: Where keys are kept.
        names: Of the keys.
        scheme: Kind of those that are made.
        passphrase: Of those that are made; None protects them by the file's mode alone.

    Returns:
        The public keys by name.
    """
    for name in names:
        _check_name(name)
        if not (folder / f"{name}.pem").exists():
            _save_unless_raced(folder, generate(name, scheme), passphrase)
    make_folder(folder)  # whoever made a key that was there may have died before its name was durable
    return {name: public(folder, name, ask=lambda _: passphrase) for name in names}


def load(folder: Path, name: str, *, ask: Ask = no_passphrase) -> SigningKey:
    """The private key of this name.

    Raises:
        InvalidInputError: ``input.key`` when there is none.
        TrustError: ``trust.key-file`` when others may read it or write beside it, it is not a key, or another
            public key lies beside it; ``trust.passphrase``.
    """
    key = load_file(folder / f"{_check_name(name)}.pem", ask=ask)
    beside = folder / f"{name}.pub.json"
    if beside.exists() and load_public_file(beside).public != key.public.public:
        raise TrustError(
            ErrorCode.TRUST_KEY_FILE, "the private key does not belong to the public key beside it", key=name
        )
    return key


def load_file(path: Path, *, ask: Ask = no_passphrase) -> SigningKey:
    """The private key in a PEM file; its name is that of the file.

    Raises:
        InvalidInputError: ``input.key`` when there is no such file.
        TrustError: ``trust.key-file`` when others may read it or write beside it, or it is not a key;
            ``trust.passphrase``.
    """
    return from_pem(_check_name(path.stem), read_private(path), ask)


def public(folder: Path, name: str, *, ask: Ask = no_passphrase) -> PublicKey:
    """The public key of this name, from its record, or derived where a crash left none.

    Raises:
        InvalidInputError: ``input.key`` when there is no such key.
        TrustError: ``trust.key-file``, also where others may put a record there; ``trust.passphrase``.
        FormatError: when the public file is not a record.
    """
    path = folder / f"{_check_name(name)}.pub.json"
    check_folder(folder)
    if not path.exists():
        key = load(folder, name, ask=ask).public
        create(path, json.encode(key), 0o644)
        return key
    return load_public_file(path)


def load_public_file(path: Path) -> PublicKey:
    """The public key in a record file, such as somebody else sent.

    Raises:
        InvalidInputError: ``input.key``.
        FormatError: ``format.not-a-record``, ``format.not-canonical``, ``format.too-large``.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_KEY_FILE + 1)
    except OSError as err:
        raise InvalidInputError(ErrorCode.INPUT_KEY, "there is no such public key", key=path.name) from err
    return check_public(json.decode(data, PublicKey, max_bytes=MAX_KEY_FILE))


def names(folder: Path) -> list[str]:
    """Names of the private keys in the folder."""
    return sorted(path.stem for path in folder.glob("*.pem") if _NAME.fullmatch(path.stem))


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidInputError(ErrorCode.INPUT_KEY, "a key's name has letters, digits, dots, dashes and underscores")
    return name


def _save_unless_raced(folder: Path, key: SigningKey, passphrase: bytes | None) -> None:
    try:
        save(folder, key, passphrase=passphrase)
    except InvalidInputError:
        if not (folder / f"{key.name}.pem").exists():
            raise

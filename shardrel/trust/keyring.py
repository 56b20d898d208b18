"""Keyring: a folder of local private keys, a PEM file and a public record each.

``<name>.pem`` is PKCS #8 with mode 0600, ``<name>.pub.json`` the canonical ``PublicKey`` record; the
folder has mode 0700. Files are created whole or not at all, and never replaced.
"""

import os
import re
import stat
from pathlib import Path

from shardrel import clock
from shardrel.canonical import json
from shardrel.errors import ErrorCode, InvalidInputError, TrustError
from shardrel.records.policy import PublicKey
from shardrel.trust.keys import Scheme, SigningKey, check_public, from_pem, generate

PUBLISHER = "publisher"
VERIFIER = "verifier"
APPROVER = "approver"
ADMIN = "admin"
DEFAULT_NAMES = (PUBLISHER, VERIFIER, APPROVER, ADMIN)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_MAX_KEY_FILE = 64 * 1024


def save(folder: Path, key: SigningKey, *, passphrase: bytes | None = None) -> None:
    """Store a key pair under its name.

    Raises:
        InvalidInputError: ``input.key`` for a bad name, or when another key has it.
        TrustError: ``trust.key-file`` when the folder is not a private one.

    Effects: creates the folder, then the private file, then the public one; a crash leaves a prefix
        of them, and ``public`` derives the last again.
    """
    _check_name(key.name)
    _own_folder(folder)
    if not _create(folder / f"{key.name}.pem", key.to_pem(passphrase), 0o600):
        raise InvalidInputError(
            ErrorCode.INPUT_KEY, "there is a key of this name; keys are never replaced", key=key.name
        )
    _create(folder / f"{key.name}.pub.json", json.encode(key.public), 0o644)


def ensure(folder: Path, names: tuple[str, ...] = DEFAULT_NAMES, scheme: Scheme = "ed25519") -> dict[str, PublicKey]:
    """Make the keys that are not there yet; twice is harmless.

    Returns:
        The public keys by name.
    """
    for name in names:
        _check_name(name)
        if not (folder / f"{name}.pem").exists():
            _save_unless_raced(folder, generate(name, scheme))
    return {name: public(folder, name) for name in names}


def load(folder: Path, name: str, *, passphrase: bytes | None = None) -> SigningKey:
    """The private key of this name.

    Raises:
        InvalidInputError: ``input.key`` when there is none.
        TrustError: ``trust.key-file`` when others may read it, it is not a key, or another public key lies beside it.
    """
    key = load_file(folder / f"{_check_name(name)}.pem", passphrase=passphrase)
    beside = folder / f"{name}.pub.json"
    if beside.exists() and load_public_file(beside).public != key.public.public:
        raise TrustError(
            ErrorCode.TRUST_KEY_FILE, "the private key does not belong to the public key beside it", key=name
        )
    return key


def load_file(path: Path, *, passphrase: bytes | None = None) -> SigningKey:
    """The private key in a PEM file; its name is that of the file.

    Raises:
        InvalidInputError: ``input.key`` when there is no such file.
        TrustError: ``trust.key-file`` when others may read it, or it is not a key.
    """
    return from_pem(_check_name(path.stem), _read_private(path), passphrase)


def public(folder: Path, name: str) -> PublicKey:
    """The public key of this name, from its record, or derived where a crash left none.

    Raises:
        InvalidInputError: ``input.key`` when there is no such key.
        TrustError: ``trust.key-file``.
        FormatError: when the public file is not a record.
    """
    path = folder / f"{_check_name(name)}.pub.json"
    if not path.exists():
        key = load(folder, name).public
        _create(path, json.encode(key), 0o644)
        return key
    return load_public_file(path)


def load_public_file(path: Path) -> PublicKey:
    """The public key in a record file, such as somebody else sent.

    Raises:
        InvalidInputError: ``input.key``.
        FormatError: ``format.not-a-record``, ``format.not-canonical``.
    """
    try:
        data = path.read_bytes()
    except OSError as err:
        raise InvalidInputError(ErrorCode.INPUT_KEY, "there is no such public key", key=path.name) from err
    return check_public(json.decode(data, PublicKey, max_bytes=_MAX_KEY_FILE))


def names(folder: Path) -> list[str]:
    """Names of the private keys in the folder."""
    return sorted(path.stem for path in folder.glob("*.pem") if _NAME.fullmatch(path.stem))


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidInputError(ErrorCode.INPUT_KEY, "a key's name has letters, digits, dots, dashes and underscores")
    return name


def _save_unless_raced(folder: Path, key: SigningKey) -> None:
    try:
        save(folder, key)
    except InvalidInputError:
        if not (folder / f"{key.name}.pem").exists():
            raise


def _own_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if stat.S_IMODE(folder.stat().st_mode) & 0o022:
        raise TrustError(ErrorCode.TRUST_KEY_FILE, "others may write to the folder of keys; chmod 700 it")


def _create(path: Path, data: bytes, mode: int) -> bool:
    """Create the file whole and durable, or find that it exists."""
    scratch = path.with_name(f".{path.name}.{clock.fresh_id()}")
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(scratch, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(scratch)
    _sync_folder(path.parent)
    return True


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read_private(path: Path) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError as err:
        raise InvalidInputError(ErrorCode.INPUT_KEY, "there is no such private key", key=path.stem) from err
    except OSError as err:
        raise TrustError(ErrorCode.TRUST_KEY_FILE, "the private key file cannot be opened", key=path.stem) from err
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077:
            raise TrustError(
                ErrorCode.TRUST_KEY_FILE,
                "a private key is a plain file that only its owner may read; chmod 600 it",
                key=path.stem,
            )
        return file.read(_MAX_KEY_FILE)

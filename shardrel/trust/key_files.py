"""A key-encryption key in a local file: canonical JSON, mode 0600, never replaced. Source: schemas/SPEC.md#encryption"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from shardrel.canonical import json
from shardrel.errors import ErrorCode, FormatError, IntegrityError, InvalidInputError, TrustError
from shardrel.records.fields import END, Record
from shardrel.trust import aead
from shardrel.trust.key_encryption import DEFAULT_VERSION, fingerprint_of
from shardrel.trust.private_files import create_private, own_folder, read_private

SUFFIX = ".kek.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_MAX_FILE = 4096


class KeyFile(Record, tag_field="schema", tag="shardrel.key-encryption-key.v1", frozen=True, kw_only=True):
    """What is in the file; never in a store."""

    key: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
    version: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,63}" + END)]

    def __repr__(self) -> str:
        return f"KeyFile(version={self.version!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKey:
    """A key-encryption key in memory."""

    version: str
    key: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """Digest that names the key."""
        return fingerprint_of("aes-256-gcm", self.key)

    def wrap(self, data_key: bytes, binding: Mapping[str, str]) -> bytes:
        """The data key, encrypted and bound."""
        return aead.encrypt(self.key, data_key, json.encode(dict(binding)))

    def unwrap(self, wrapped: bytes, binding: Mapping[str, str]) -> bytes:
        """The data key.

        Raises:
            IntegrityError: ``encryption.wrapped-key``.
        """
        try:
            return aead.decrypt(self.key, wrapped, json.encode(dict(binding)))
        except aead.TagError as err:
            raise IntegrityError(
                ErrorCode.ENCRYPTION_WRAPPED_KEY,
                "the wrapped key was made for something else, or was changed",
                shard=binding["shard"],
            ) from err


def make_key_file(folder: Path, name: str, version: str = DEFAULT_VERSION) -> tuple[Path, FileKey]:
    """Make a key-encryption key.

    Raises:
        InvalidInputError: ``input.key`` for a bad name or version, or when the file is there.
        TrustError: ``trust.key-file`` when the folder is not a private one.

    Effects: creates the folder and the file; a crash leaves it whole or not at all.
    """
    if not _NAME.fullmatch(name) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", version):
        raise InvalidInputError(
            ErrorCode.INPUT_KEY, "names and versions of keys have letters, digits, dots, dashes and underscores"
        )
    made = FileKey(version=version, key=aead.fresh_key())
    own_folder(folder)
    path = folder / f"{name}{SUFFIX}"
    if not create_private(path, json.encode(KeyFile(key=made.key.hex(), version=version))):
        raise InvalidInputError(ErrorCode.INPUT_KEY, "there is a key of this name; keys are never replaced", key=name)
    return path, made


def load_key_file(path: Path) -> FileKey:
    """Read a key-encryption key.

    Raises:
        InvalidInputError: ``input.key`` when there is no such file.
        TrustError: ``trust.key-file`` when others may read it, or it is no such key.
    """
    try:
        held = json.decode(read_private(path), KeyFile, max_bytes=_MAX_FILE)
    except FormatError:
        # The cause would quote what is in the file.
        raise TrustError(ErrorCode.TRUST_KEY_FILE, "the file is no key-encryption key", key=path.name) from None
    return FileKey(version=held.version, key=bytes.fromhex(held.key))

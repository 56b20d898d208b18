"""Signed notes: a text and signature lines, as transparency logs and their witnesses read them.

Source: https://c2sp.org/signed-note
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.policy import PublicKey
from shardrel.trust.keys import key_id, verifies
from shardrel.trust.signer import Signer

_ED25519, _ECDSA = b"\x01", b"\x02"
_DASH = "\u2014 "
_MAX_LINES = 64


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One signature line: the key's name, four bytes that help to find the key, and the signature."""

    name: str
    hint: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Note:
    """A text, with its last newline, and who signed it."""

    text: str
    signatures: tuple[NoteSignature, ...]


def hint_of(name: str, key: PublicKey) -> bytes:
    """The four bytes by which a signature line names a key; anybody can make another key with the same ones."""
    der = bytes.fromhex(key.public)
    if key.scheme == "ed25519":
        return hashlib.sha256(name.encode() + b"\n" + _ED25519 + der[-32:]).digest()[:4]
    return hashlib.sha256(der).digest()[:4]


def verifier_key(name: str, key: PublicKey) -> str:
    """The key as tools for notes take it: name, hint, kind and public key."""
    der = bytes.fromhex(key.public)
    kind = _ED25519 + der[-32:] if key.scheme == "ed25519" else _ECDSA + der
    return f"{name}+{hint_of(name, key).hex()}+{base64.b64encode(kind).decode()}"


def sign_note(text: str, name: str, signers: Sequence[Signer]) -> str:
    """A note with a line by each signer, all under one name."""
    lines = [
        f"{_DASH}{name} {base64.b64encode(hint_of(name, one.public) + one.sign(text.encode())).decode()}\n"
        for one in signers
    ]
    return f"{text}\n{''.join(lines)}"


def read_note(note: str) -> Note:
    """Take a note apart; no signature is checked.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    text, blank, tail = note.rpartition("\n\n")
    lines = tail.split("\n")
    if not blank or lines.pop() != "" or not 1 <= len(lines) <= _MAX_LINES:
        raise bad_note()
    if any(ord(character) < 0x20 and character != "\n" for character in note):
        raise bad_note()
    return Note(text + "\n", tuple(_signature(line) for line in lines))


def signed_by(note: Note, name: str, keys: Iterable[PublicKey]) -> frozenset[str]:
    """Ids of those of the keys that signed the note under this name; lines by anybody else are ignored."""
    text = note.text.encode()
    lines = [line for line in note.signatures if line.name == name]
    return frozenset(
        key_id(key)
        for key in keys
        if any(line.hint == hint_of(name, key) and verifies(key, line.signature, text) for line in lines)
    )


def read_base64(text: str) -> bytes:
    """Standard base64 in its one spelling.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as err:
        raise bad_note() from err
    if base64.b64encode(raw).decode() != text:
        raise bad_note()
    return raw


def bad_note() -> InvalidInputError:
    """The text is no note, or none of a log."""
    return InvalidInputError(ErrorCode.INPUT_INVALID, "the text is no signed checkpoint of a log")


def _signature(line: str) -> NoteSignature:
    name, space, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not space or not name or "+" in name or any(map(str.isspace, name)):
        raise bad_note()
    raw = read_base64(encoded)
    if len(raw) <= 4:
        raise bad_note()
    return NoteSignature(name, raw[:4], raw[4:])

"""From settings to what verbs work on: the store, the keys, a root that a person named."""

from pathlib import Path
from typing import TYPE_CHECKING

from shardrel.cli import passphrases
from shardrel.cli.settings import Settings
from shardrel.digest import Digest, parse_digest
from shardrel.errors import ErrorCode, FormatError, InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from shardrel.store.port import Store
    from shardrel.trust.signer import Signer

_KMS = "awskms:"
_HEX = frozenset("0123456789abcdef")
_PREFIX = 8


def the_store(settings: Settings) -> "Store":
    """The store that the settings name; nothing is asked of it yet."""
    from shardrel.store.open import open_store

    return open_store(settings.store, endpoint_url=settings.endpoint_url)


def the_store_to_write(settings: Settings) -> "Store":
    """The store for a verb that writes to it.

    Raises:
        RefusedError: ``storage.not-conformant`` where the kept verdict of a probe says no.
    """
    from shardrel.store.verdicts import conforming

    return conforming(the_store(settings), settings.dataset)


def the_key(settings: Settings, reference: str) -> "Signer":
    """A key by its reference: the name of a private key in the folder, a PEM file, or ``awskms:ARN``.

    Raises:
        InvalidInputError: ``input.key``.
        TrustError: ``trust.key-file``, ``trust.passphrase``, ``trust.signer``.
        UnavailableError: ``signer.unavailable``, ``signer.throttled``, ``signer.access-denied``.
    """
    from shardrel.trust import keyring

    if reference.startswith(_KMS):
        from shardrel.kms.signing import kms_signer

        return kms_signer(reference.removeprefix(_KMS))
    if "/" in reference or reference.endswith(".pem"):
        return keyring.load_file(Path(reference), ask=passphrases.ask)
    return keyring.load(settings.keys, reference, ask=passphrases.ask)


def full_digest(text: str, *, or_prefix: bool = False) -> Digest:
    """A digest as it is written, or its 64 hexadecimal digits alone.

    Args:
        text: What a person wrote.
        or_prefix: Whether a prefix would have done; said where the text is no digest.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    try:
        return parse_digest(text if text.startswith("sha256:") else f"sha256:{text}")
    except FormatError as err:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID, _no_digest(text.removeprefix("sha256:"), or_prefix=or_prefix)
        ) from err


def _no_digest(digits: str, *, or_prefix: bool) -> str:
    known = f"; of a root that the gate knows, the first {_PREFIX} or more will do" if or_prefix else ", all of them"
    rule = f"a digest is sha256: and 64 lower-case hex digits{known}"
    if not digits or set(digits.lower()) - _HEX:
        return rule
    if set(digits) - _HEX:
        return f"{rule}; these are in upper case"
    return f"{rule}; these are {len(digits)}"


def is_prefix(text: str) -> bool:
    """Whether a text can only be the beginning of a digest."""
    digits = text.removeprefix("sha256:")
    return _PREFIX <= len(digits) < 64 and not set(digits) - _HEX


def the_root(text: str, known: list[str]) -> Digest:
    """A root by its digest, or by a prefix of at least eight digits that only one known root has.

    Args:
        text: What a person wrote.
        known: Roots that the gate has heard of; a full digest need not be among them.

    Raises:
        InvalidInputError: ``input.invalid``.
        NotFoundError: ``gate.unknown-root`` when no known root begins like this.
    """
    if not is_prefix(text):
        return full_digest(text, or_prefix=True)
    digits = text.removeprefix("sha256:")
    found = [root for root in known if root.startswith(f"sha256:{digits}")]
    if not found:
        raise NotFoundError(ErrorCode.GATE_UNKNOWN_ROOT, "no root that the gate knows begins like this", root=text)
    if len(found) > 1:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "several roots begin like this; write more digits", root=text)
    return Digest(found[0])

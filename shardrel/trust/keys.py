"""Keys: made, identified, and used to sign and to check. Source: schemas/SPEC.md#trust

A key's id is the SHA-256 of its DER SubjectPublicKeyInfo. One key has one such encoding here:
another encoding of the same key (a compressed point, say) is refused, so that it cannot be counted
twice.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ecdsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_public_key,
    load_pem_private_key,
)
from securesystemslib.exceptions import UnverifiedSignatureError, VerificationError
from securesystemslib.signer import CryptoSigner, Signature, SSlibKey  # type: ignore[attr-defined]

from shardrel import clock
from shardrel.errors import ErrorCode, InvalidInputError, TrustError
from shardrel.records.policy import PublicKey
from shardrel.trust.sealed_key import is_sealed, seal_pkcs8

Scheme = Literal["ed25519", "ecdsa-sha2-nistp256"]
Ask = Callable[[str], bytes | None]
"""Gives the passphrase of a key by its name, or none; asked only where a key has one."""

_Private = Ed25519PrivateKey | EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A private key in memory, and the public key that belongs to it."""

    public: PublicKey
    private: _Private = field(repr=False)

    @property
    def name(self) -> str:
        """What people call the key."""
        return self.public.name

    def sign(self, data: bytes) -> bytes:
        """Signature over exactly these bytes."""
        signer = CryptoSigner(self.private, _library_key(self.public))
        return bytes.fromhex(signer.sign(data).signature)

    def to_pem(self, passphrase: bytes | None = None) -> bytes:
        """PKCS #8 in PEM, encrypted where a passphrase is given."""
        if passphrase is None:
            return self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        der = self.private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        salt, vector = bytes.fromhex(clock.fresh_id()), bytes.fromhex(clock.fresh_id())
        return seal_pkcs8(der, check_passphrase(passphrase), salt, vector)


def generate(name: str, scheme: Scheme = "ed25519") -> SigningKey:
    """Make a new key pair."""
    private = Ed25519PrivateKey.generate() if scheme == "ed25519" else generate_ecdsa(SECP256R1())
    return _signing_key(name, private)


def no_passphrase(_: str) -> bytes | None:
    """Nobody is there to be asked."""
    return None


def check_passphrase(passphrase: bytes) -> bytes:
    """Check that a passphrase can protect anything.

    Raises:
        InvalidInputError: ``input.key``.
    """
    if not passphrase.strip():
        raise InvalidInputError(ErrorCode.INPUT_KEY, "a passphrase is not empty")
    return passphrase


def from_pem(name: str, pem: bytes, ask: Ask = no_passphrase) -> SigningKey:
    """Read a private key.

    Raises:
        TrustError: ``trust.key-file`` when it cannot be read, or is of another kind; ``trust.passphrase``
            when it has a passphrase and none, or another one, was given.
    """
    sealed = is_sealed(pem)
    passphrase = ask(name) if sealed else None
    if sealed and not passphrase:
        raise TrustError(ErrorCode.TRUST_PASSPHRASE, "the private key has a passphrase, and none was given", key=name)
    try:
        private = load_pem_private_key(pem, passphrase)
    except (ValueError, TypeError, UnsupportedAlgorithm) as err:
        if sealed:
            raise TrustError(ErrorCode.TRUST_PASSPHRASE, "the passphrase does not open this key", key=name) from err
        raise TrustError(
            ErrorCode.TRUST_KEY_FILE, "the private key cannot be read; it is PKCS #8 in PEM", key=name
        ) from err
    if not isinstance(private, Ed25519PrivateKey | EllipticCurvePrivateKey):
        raise TrustError(ErrorCode.TRUST_KEY_FILE, "a key is Ed25519 or ECDSA on P-256", key=name)
    return _signing_key(name, private)


def key_id(key: PublicKey) -> str:
    """SHA-256, in hex, of the key's DER SubjectPublicKeyInfo."""
    return hashlib.sha256(bytes.fromhex(key.public)).hexdigest()


def check_public(key: PublicKey) -> PublicKey:
    """Check that a public key is of its scheme and in its one encoding.

    Raises:
        InvalidInputError: ``input.key``.
    """
    _library_key(key)
    return key


def verifies(key: PublicKey, signature: bytes, data: bytes) -> bool:
    """Whether this key made this signature over exactly these bytes."""
    identity = key_id(key)
    try:
        _library_key(key).verify_signature(Signature(identity, signature.hex()), data)
    except (UnverifiedSignatureError, VerificationError):
        return False
    return True


def _signing_key(name: str, private: _Private) -> SigningKey:
    der = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    scheme: Scheme = "ed25519" if isinstance(private, Ed25519PrivateKey) else "ecdsa-sha2-nistp256"
    public = PublicKey(name=name, scheme=scheme, public=der.hex())
    try:
        check_public(public)
    except InvalidInputError as err:
        raise TrustError(ErrorCode.TRUST_KEY_FILE, "a key is Ed25519 or ECDSA on P-256", key=name) from err
    return SigningKey(public=public, private=private)


@lru_cache(maxsize=1024)
def _library_key(key: PublicKey) -> SSlibKey:
    der = bytes.fromhex(key.public)
    try:
        public = load_der_public_key(der)
        again = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except (ValueError, TypeError, UnsupportedAlgorithm) as err:
        raise InvalidInputError(ErrorCode.INPUT_KEY, "a public key is DER SubjectPublicKeyInfo", key=key.name) from err
    if again != der or not _of_scheme(public, key.scheme):
        raise InvalidInputError(
            ErrorCode.INPUT_KEY, "a public key is of its scheme, in the one canonical encoding", key=key.name
        )
    return SSlibKey.from_crypto(public, key_id(key), key.scheme)


def _of_scheme(public: object, scheme: str) -> bool:
    if scheme == "ed25519":
        return isinstance(public, Ed25519PublicKey)
    return isinstance(public, EllipticCurvePublicKey) and isinstance(public.curve, SECP256R1)

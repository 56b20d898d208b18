"""Private keys under a passphrase: PKCS #8 with PBES2, PBKDF2-HMAC-SHA256 and AES-256-CBC. Source: schemas/SPEC.md#keys

Written here because the library's own form stretches a passphrase by 2,048 rounds only. Whatever reads PKCS #8
(OpenSSL, the library itself) reads this too: the number of rounds stands in the file.
"""

import base64

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.padding import PKCS7

ROUNDS = 600_000
_LABEL = "ENCRYPTED PRIVATE KEY"

# Object identifiers, as DER writes them.
_PBES2 = bytes.fromhex("06092a864886f70d01050d")
_PBKDF2 = bytes.fromhex("06092a864886f70d01050c")
_HMAC_SHA256 = bytes.fromhex("06082a864886f70d0209")
_AES_256_CBC = bytes.fromhex("060960864801650304012a")
_NULL = bytes.fromhex("0500")
_SEQUENCE, _OCTETS, _INTEGER = 0x30, 0x04, 0x02


def seal_pkcs8(pkcs8: bytes, passphrase: bytes, salt: bytes, vector: bytes) -> bytes:
    """PEM of a private key that only its passphrase opens.

    Args:
        pkcs8: The private key, DER.
        passphrase: Not empty.
        salt: 16 fresh bytes.
        vector: 16 more.
    """
    padder = PKCS7(AES.block_size).padder()
    cipher = Cipher(AES(_stretched(passphrase, salt)), CBC(vector)).encryptor()
    sealed = cipher.update(padder.update(pkcs8) + padder.finalize()) + cipher.finalize()
    algorithm = _der(_SEQUENCE, _PBES2, _der(_SEQUENCE, _derivation(salt), _encryption(vector)))
    return _pem(_der(_SEQUENCE, algorithm, _der(_OCTETS, sealed)))


def is_sealed(pem: bytes) -> bool:
    """Whether a private key needs a passphrase."""
    return f"-----BEGIN {_LABEL}-----".encode() in pem


def _stretched(passphrase: bytes, salt: bytes) -> bytes:
    return PBKDF2HMAC(algorithm=SHA256(), length=32, salt=salt, iterations=ROUNDS).derive(passphrase)


def _derivation(salt: bytes) -> bytes:
    rounds = _der(_INTEGER, ROUNDS.to_bytes(ROUNDS.bit_length() // 8 + 1, "big"))
    return _der(_SEQUENCE, _PBKDF2, _der(_SEQUENCE, _der(_OCTETS, salt), rounds, _der(_SEQUENCE, _HMAC_SHA256, _NULL)))


def _encryption(vector: bytes) -> bytes:
    return _der(_SEQUENCE, _AES_256_CBC, _der(_OCTETS, vector))


def _der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    if len(body) < 0x80:
        return bytes([tag, len(body)]) + body
    size = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(size)]) + size + body


def _pem(der: bytes) -> bytes:
    text = base64.b64encode(der).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {_LABEL}-----", *lines, f"-----END {_LABEL}-----", ""]).encode()

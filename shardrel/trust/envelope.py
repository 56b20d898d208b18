"""DSSE envelopes: sealed and unsealed. Source: schemas/SPEC.md#trust, DSSE v1.0

Signed is the pre-authentication encoding, never the payload or the JSON. An envelope's ``keyid`` is
a hint that nobody authenticates: a signature counts for the key that verifies it, and a key counts
once however often and under whatever name it signed.
"""

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from shardrel.canonical import json
from shardrel.errors import ErrorCode, FormatError, TrustError
from shardrel.records.policy import PublicKey
from shardrel.trust.keys import key_id, verifies
from shardrel.trust.policy import MOST_SIGNATURES
from shardrel.trust.signer import Signer
from shardrel.trust.strict import parse_object

MAX_ENVELOPE_BYTES = 16 * 1024 * 1024


class _Signature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    keyid: str = ""
    sig: str


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    payload: str
    payload_type: str
    signatures: tuple[_Signature, ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """A payload as it was signed, and the ids of the distinct given keys that signed it."""

    payload: bytes
    key_ids: frozenset[str]


def pae(payload_type: str, payload: bytes) -> bytes:
    """Pre-authentication encoding; both lengths count bytes."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def seal(payload: bytes, payload_type: str, signers: Sequence[Signer]) -> bytes:
    """Canonical JSON of an envelope that each signer signed.

    The same payload and keys give the same bytes with Ed25519, and other bytes each time with ECDSA.
    """
    message = pae(payload_type, payload)
    signatures = [
        {"keyid": key_id(signer.public), "sig": base64.b64encode(signer.sign(message)).decode()} for signer in signers
    ]
    payload64 = base64.b64encode(payload).decode()
    return json.encode({"payload": payload64, "payloadType": payload_type, "signatures": signatures})


def unseal(data: bytes, payload_type: str, keys: Iterable[PublicKey]) -> Opened:
    """Open an envelope that at least one of the keys signed.

    Raises:
        FormatError: ``format.too-large``, ``format.not-a-record``.
        TrustError: ``trust.payload-type``, ``trust.bad-signature``.
    """
    payload, signatures = _parse(data, payload_type)
    message = pae(payload_type, payload)
    wanted = {key_id(key): key for key in keys}
    found = frozenset(
        identity
        for identity, key in wanted.items()
        if any(verifies(key, signature, message) for signature in signatures)
    )
    if not found:
        raise TrustError(ErrorCode.TRUST_SIGNATURE, "no key that may sign this signed it", signatures=len(signatures))
    return Opened(payload, found)


def peek(data: bytes, payload_type: str) -> bytes:
    """The payload of an envelope whose bytes are already vouched for by a digest; no signature is checked.

    Raises:
        FormatError: ``format.too-large``, ``format.not-a-record``.
        TrustError: ``trust.payload-type``.
    """
    return _parse(data, payload_type)[0]


def signatures_of(data: bytes) -> list[tuple[str, bytes]]:
    """Key ids, which are hints, and signatures of an envelope; none is checked.

    Raises:
        FormatError: ``format.too-large``, ``format.not-a-record``.
    """
    return [(item.keyid, _base64(item.sig)) for item in _envelope(data).signatures]


def _parse(data: bytes, payload_type: str) -> tuple[bytes, list[bytes]]:
    envelope = _envelope(data)
    if envelope.payload_type != payload_type:
        raise TrustError(
            ErrorCode.TRUST_PAYLOAD_TYPE, "the envelope holds another type of payload", expected=payload_type
        )
    return _base64(envelope.payload), [_base64(item.sig) for item in envelope.signatures]


def _envelope(data: bytes) -> _Envelope:
    try:
        envelope = msgspec.convert(parse_object(data, max_bytes=MAX_ENVELOPE_BYTES), _Envelope)
    except msgspec.ValidationError as err:
        raise FormatError(ErrorCode.FORMAT_NOT_A_RECORD, "the bytes are not a DSSE envelope") from err
    if len(envelope.signatures) > MOST_SIGNATURES:
        raise FormatError(ErrorCode.FORMAT_TOO_LARGE, f"an envelope has at most {MOST_SIGNATURES} signatures")
    return envelope


def _base64(text: str) -> bytes:
    """Standard or URL-safe base64, as DSSE asks; padded, and with nothing in the unused bits."""
    alphabet = b"-_" if ("-" in text or "_" in text) else b"+/"
    try:
        raw = base64.b64decode(text, alphabet, validate=True)
    except (binascii.Error, ValueError) as err:
        raise FormatError(ErrorCode.FORMAT_NOT_A_RECORD, "an envelope holds base64") from err
    if base64.b64encode(raw, alphabet).decode() != text:
        raise FormatError(ErrorCode.FORMAT_NOT_A_RECORD, "an envelope holds base64, canonically padded")
    return raw

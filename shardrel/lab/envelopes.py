"""Envelopes of a bundle, which are taken in one form alone. Source: schemas/SPEC.md#crash-lab."""

import base64
from collections.abc import Iterable

from shardrel.canonical import json
from shardrel.errors import ErrorCode, FormatError
from shardrel.records.policy import PublicKey
from shardrel.trust.envelope import signatures_of, unseal


def unsealed(data: bytes, payload_type: str, keys: Iterable[PublicKey]) -> bytes:
    """The payload of an envelope that is, byte for byte, what ``seal`` makes of it.

    DSSE lets key ids be any text and signatures be more than needed. A file of a bundle has no byte that may change.

    Raises:
        TrustError: ``trust.bad-signature``, ``trust.payload-type``.
        FormatError: ``format.not-canonical``, and as ``unseal``.
    """
    opened = unseal(data, payload_type, keys)
    signed = signatures_of(data)
    again = {
        "payload": base64.b64encode(opened.payload).decode(),
        "payloadType": payload_type,
        "signatures": [{"keyid": name, "sig": base64.b64encode(signature).decode()} for name, signature in signed],
    }
    if {name for name, _ in signed} != opened.key_ids or len(signed) != 1 or json.encode(again) != data:
        raise FormatError(ErrorCode.FORMAT_NOT_CANONICAL, "an envelope of a bundle has one form")
    return opened.payload

"""Envelopes: what is signed, what counts, and what is refused before a signature is looked at."""

import base64
import json

import pytest
from cryptography.hazmat.primitives.serialization import load_der_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from shardrel.errors import ErrorCode, FormatError, TrustError
from shardrel.trust.envelope import pae, peek, seal, unseal
from shardrel.trust.keys import SigningKey, generate, key_id

KIND = "application/vnd.shardrel.example+json"
PAYLOAD = '{"root":"é"}'.encode()
SIGN_EXACTLY = b"DSSEv1 37 application/vnd.shardrel.example+json 13 " + PAYLOAD
KEY = generate("one")
OTHER = generate("other")

NEAR_MISSES = {
    "raw-payload": PAYLOAD,
    "base64-text": b"DSSEv1 37 " + KIND.encode() + b" 20 " + base64.b64encode(PAYLOAD),
    "other-type": b"DSSEv1 16 application/json 13 " + PAYLOAD,
    "length-in-characters": b"DSSEv1 37 " + KIND.encode() + b" 12 " + PAYLOAD,
    "moved-boundary": b"DSSEv1 39 " + KIND.encode() + b" 1 13 " + PAYLOAD,
}


def envelope(signatures: list[tuple[str, bytes]], payload: bytes = PAYLOAD, kind: str = KIND) -> bytes:
    """An envelope as another tool might write it."""
    return json.dumps(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": kind,
            "signatures": [{"keyid": name, "sig": base64.b64encode(sig).decode()} for name, sig in signatures],
        }
    ).encode()


def test_signed_are_exactly_the_bytes_of_the_standard() -> None:
    assert pae(KIND, PAYLOAD) == SIGN_EXACTLY
    assert unseal(envelope([("", KEY.sign(SIGN_EXACTLY))]), KIND, [KEY.public]).payload == PAYLOAD


@pytest.mark.parametrize("near", NEAR_MISSES)
def test_a_signature_over_a_near_miss_does_not_count(near: str) -> None:
    with pytest.raises(TrustError) as caught:
        unseal(envelope([(key_id(KEY.public), KEY.sign(NEAR_MISSES[near]))]), KIND, [KEY.public])
    assert caught.value.code == ErrorCode.TRUST_SIGNATURE


def test_another_payload_type_is_refused_though_it_is_signed() -> None:
    sealed = seal(PAYLOAD, "application/json", [KEY])
    with pytest.raises(TrustError) as caught:
        unseal(sealed, KIND, [KEY.public])
    assert caught.value.code == ErrorCode.TRUST_PAYLOAD_TYPE


@pytest.mark.parametrize("key", [generate("ed"), generate("ec", "ecdsa-sha2-nistp256")], ids=["ed25519", "ecdsa"])
def test_a_sealed_envelope_is_one_that_other_tools_verify(key: SigningKey) -> None:
    sealed = seal(PAYLOAD, KIND, [key])
    public = load_der_public_key(bytes.fromhex(key.public.public))
    theirs = SSlibKey.from_crypto(public, key_id(key.public))
    assert list(Envelope.from_dict(json.loads(sealed)).verify([theirs], 1)) == [key_id(key.public)]


def test_the_same_key_counts_once_however_often_and_under_whatever_name_it_signed() -> None:
    message = pae(KIND, PAYLOAD)
    many = envelope([("a", KEY.sign(message)), ("b", KEY.sign(message)), (key_id(OTHER.public), KEY.sign(message))])
    assert unseal(many, KIND, [KEY.public, KEY.public, OTHER.public]).key_ids == {key_id(KEY.public)}


def test_a_key_that_signs_with_other_bytes_each_time_counts_once() -> None:
    key = generate("ec", "ecdsa-sha2-nistp256")
    message = pae(KIND, PAYLOAD)
    twice = envelope([("a", key.sign(message)), ("b", key.sign(message))])
    assert unseal(twice, KIND, [key.public]).key_ids == {key_id(key.public)}


def test_the_keyid_is_a_hint_alone() -> None:
    message = pae(KIND, PAYLOAD)
    lying = envelope([(key_id(OTHER.public), KEY.sign(message))])
    assert unseal(lying, KIND, [OTHER.public, KEY.public]).key_ids == {key_id(KEY.public)}
    with pytest.raises(TrustError):
        unseal(lying, KIND, [OTHER.public])


def test_a_changed_payload_is_refused() -> None:
    changed = json.loads(seal(PAYLOAD, KIND, [KEY]))
    changed["payload"] = base64.b64encode(PAYLOAD + b" ").decode()
    with pytest.raises(TrustError) as caught:
        unseal(json.dumps(changed).encode(), KIND, [KEY.public])
    assert caught.value.code == ErrorCode.TRUST_SIGNATURE


def test_url_safe_base64_is_read_too() -> None:
    payload = b"\xfb\xff\xfe" * 3
    sealed = json.loads(seal(payload, KIND, [KEY]))
    sealed["payload"] = base64.urlsafe_b64encode(payload).decode()
    assert unseal(json.dumps(sealed).encode(), KIND, [KEY.public]).payload == payload


SEALED = seal(PAYLOAD, KIND, [KEY]).decode()
MALFORMED = {
    "not-json": "]",
    "a-list": "[]",
    "unknown-field": SEALED[:-1] + ',"note":1}',
    "missing-field": '{"payload":"","payloadType":"x"}',
    "duplicate-key": SEALED[:-1] + ',"payload":"e30="}',
    "duplicate-key-escaped": SEALED[:-1] + ',"payloa\\u0064":"e30="}',
    "trailing-data": SEALED + "{}",
    "byte-order-mark": "\ufeff" + SEALED,
    "unpadded-base64": SEALED.replace("==", "", 1),
    "base64-with-line-feed": SEALED.replace('"payload":"', '"payload":"\\n', 1),
    "base64-with-bits-left-over": '{"payload":"eR==","payloadType":"' + KIND + '","signatures":[]}',
    "deep-nesting": "[" * 100_000,
    "too-many-signatures": envelope([("", b"x")] * 65).decode(),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_two_programs_could_read_in_two_ways_is_refused_at_parse(name: str) -> None:
    with pytest.raises(FormatError):
        unseal(MALFORMED[name].encode(), KIND, [KEY.public])


def test_an_envelope_is_bounded() -> None:
    with pytest.raises(FormatError) as caught:
        peek(b" " * (16 * 1024 * 1024 + 1), KIND)
    assert caught.value.code == ErrorCode.FORMAT_TOO_LARGE

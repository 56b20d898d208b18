"""Keys in KMS as signers: what they sign verifies, and what goes wrong there has a code and an exit status."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shardrel.errors import ErrorCode, InvalidInputError, ShardrelError, TrustError, UnavailableError
from shardrel.kms.service import KmsSettings
from shardrel.kms.signing import KmsSigner, kms_signer
from shardrel.trust.envelope import seal, unseal
from shardrel.trust.keys import key_id, verifies
from tests.support.kms_server import ACCOUNT, CUT, WRONG, Kms, kms_server

SETTINGS = KmsSettings(attempts=3, first_pause=0.001, longest_pause=0.002, connect_timeout=2, read_timeout=5)
KIND = "application/vnd.shardrel.example+json"


@pytest.fixture(scope="module")
def server() -> Iterator[Kms]:
    with kms_server() as kms:
        kms.add("p256", ec.generate_private_key(ec.SECP256R1()))
        kms.add("ed25519", Ed25519PrivateKey.generate())
        kms.add("p384", ec.generate_private_key(ec.SECP384R1()))
        kms.add("k256", ec.generate_private_key(ec.SECP256K1()))
        yield kms


@pytest.fixture
def kms(server: Kms, monkeypatch: pytest.MonkeyPatch) -> Kms:
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    server.script.clear()
    server.requests.clear()
    return server


def signer(name: str = "p256") -> KmsSigner:
    return kms_signer(ACCOUNT + name, settings=SETTINGS)


@cache
def known(name: str = "p256") -> KmsSigner:
    """The same, asked for once: it makes no difference to what is signed."""
    return signer(name)


def refused(call: Any) -> ShardrelError:
    with pytest.raises(ShardrelError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(("name", "size"), [("p256", 10), ("p256", 4096), ("p256", 100_000), ("ed25519", 4096)])
def test_what_it_signs_verifies(kms: Kms, name: str, size: int) -> None:
    key = known(name)
    assert verifies(key.public, key.sign(b"x" * size), b"x" * size)


def test_an_envelope_by_a_key_in_kms_is_like_any_other(kms: Kms) -> None:
    key = signer()
    assert key.public.name == "p256"
    assert unseal(seal(b"{}" * 4000, KIND, [key]), KIND, [key.public]).key_ids == {key_id(key.public)}


def test_a_message_that_ed25519_in_kms_cannot_take_is_refused(kms: Kms) -> None:
    err = refused(lambda: known("ed25519").sign(b"x" * 4097))
    assert (type(err), err.code) == (TrustError, ErrorCode.TRUST_SIGNER)


@pytest.mark.parametrize("name", ["p384", "k256", "nobody"])
def test_a_key_of_another_kind_or_none_is_the_callers_mistake(kms: Kms, name: str) -> None:
    err = refused(lambda: signer(name))
    assert (type(err), err.code, err.exit_status) == (InvalidInputError, ErrorCode.INPUT_KEY, 2)


@pytest.mark.parametrize(
    "arn",
    ["", "p256", "arn:aws:s3:::bucket", "arn:aws:kms:eu-west-1:12:key/x", ACCOUNT, ACCOUNT + "x y", ACCOUNT + "x\n"],
)
def test_what_is_no_arn_of_a_key_is_not_asked_for(kms: Kms, arn: str) -> None:
    assert refused(lambda: kms_signer(arn)).code == ErrorCode.INPUT_KEY
    assert not kms.requests


@pytest.mark.parametrize("fault", ["ThrottlingException", "LimitExceededException", "KMSInternalException", CUT])
def test_what_may_pass_is_asked_again(kms: Kms, fault: str) -> None:
    kms.fail("GetPublicKey", fault)
    key = signer()
    kms.fail("Sign", fault, times=2)
    assert verifies(key.public, key.sign(b"data"), b"data")
    assert [operation for operation, _ in kms.requests] == ["GetPublicKey"] * 2 + ["Sign"] * 3


@pytest.mark.parametrize(
    ("fault", "kind", "code", "status", "asked"),
    [
        ("ThrottlingException", UnavailableError, ErrorCode.SIGNER_THROTTLED, 3, 3),
        ("DependencyTimeoutException", UnavailableError, ErrorCode.SIGNER_UNAVAILABLE, 3, 3),
        (CUT, UnavailableError, ErrorCode.SIGNER_UNAVAILABLE, 3, 3),
        ("SomethingNew", UnavailableError, ErrorCode.SIGNER_UNAVAILABLE, 3, 1),
        ("AccessDeniedException", UnavailableError, ErrorCode.SIGNER_DENIED, 3, 1),
        ("ExpiredTokenException", UnavailableError, ErrorCode.SIGNER_DENIED, 3, 1),
        ("DisabledException", TrustError, ErrorCode.TRUST_SIGNER, 1, 1),
        ("KMSInvalidStateException", TrustError, ErrorCode.TRUST_SIGNER, 1, 1),
        ("NotFoundException", InvalidInputError, ErrorCode.INPUT_KEY, 2, 1),
        (WRONG, TrustError, ErrorCode.TRUST_SIGNER, 1, 1),
    ],
)
def test_what_goes_wrong_in_kms_has_our_code(
    kms: Kms, fault: str, kind: type[ShardrelError], code: ErrorCode, status: int, asked: int
) -> None:
    key = known()
    kms.requests.clear()
    kms.fail("Sign", fault, times=9)
    err = refused(lambda: key.sign(b"data"))
    assert (type(err), err.code, err.exit_status, len(kms.requests)) == (kind, code, status, asked)


def test_without_credentials_nothing_is_asked(kms: Kms, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert refused(signer).code == ErrorCode.SIGNER_DENIED
    assert not kms.requests


def test_a_service_that_is_not_there(monkeypatch: pytest.MonkeyPatch, kms: Kms) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", "http://127.0.0.1:9")
    assert refused(signer).code == ErrorCode.SIGNER_UNAVAILABLE

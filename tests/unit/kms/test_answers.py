"""Whatever KMS answers, or does not, means the same for a signature and for a data key, wrapped or unwrapped."""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from shardrel.errors import ErrorCode, IntegrityError, InvalidInputError, ShardrelError, TrustError, UnavailableError
from shardrel.kms.service import KmsSettings
from shardrel.kms.signing import KmsSigner, kms_signer
from shardrel.kms.wrapping import KmsKey, kms_key
from tests.support.kms_server import ACCOUNT, BUSY, CUT, EMPTY, GARBLED, SLOW, TEXT, Kms, kms_server

SETTINGS = KmsSettings(attempts=3, first_pause=0.001, longest_pause=0.002, connect_timeout=2, read_timeout=10)
# Where nothing but slow answers comes, a short patience decides nothing else.
SHORT = replace(SETTINGS, read_timeout=0.2)
PLACE = {"dataset": "data", "shard": "shard-00000-of-00001", "keyVersion": "1"}
DATA_KEY = bytes(range(32))
CODES_OF_SIGNERS = {
    "throttled": ErrorCode.SIGNER_THROTTLED,
    "unavailable": ErrorCode.SIGNER_UNAVAILABLE,
    "denied": ErrorCode.SIGNER_DENIED,
    "unusable": ErrorCode.TRUST_SIGNER,
    "no key": ErrorCode.INPUT_KEY,
}
CODES_OF_KEYS = {
    "throttled": ErrorCode.KMS_THROTTLED,
    "unavailable": ErrorCode.KMS_UNAVAILABLE,
    "denied": ErrorCode.KMS_DENIED,
    "unusable": ErrorCode.KMS_KEY,
    "no key": ErrorCode.INPUT_KEY,
}
USES = {"Sign": CODES_OF_SIGNERS, "Encrypt": CODES_OF_KEYS, "Decrypt": CODES_OF_KEYS}

Use = Callable[[], bytes]
Asked = tuple[str, dict[str, ErrorCode], Use]


@pytest.fixture(scope="module")
def server() -> Iterator[Kms]:
    with kms_server() as kms:
        kms.add("signs", ec.generate_private_key(ec.SECP256R1()))
        kms.add("wraps", b"k" * 32)
        kms.add("another", b"a" * 32)
        yield kms


@pytest.fixture
def kms(server: Kms, monkeypatch: pytest.MonkeyPatch) -> Kms:
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    server.script.clear()
    return server


def wrapping(name: str = "wraps", settings: KmsSettings = SETTINGS) -> KmsKey:
    return kms_key(ACCOUNT + name, None, settings=settings)


@cache
def known(settings: KmsSettings) -> tuple[KmsSigner, KmsKey, bytes]:
    """A signer, a key, and a data key that it wrapped; made once, as clients are slow to make."""
    signer, key = kms_signer(ACCOUNT + "signs", settings=SETTINGS), wrapping(settings=settings)
    service = replace(signer.service, settings=settings, _clients={})
    return replace(signer, service=service), key, wrapping().wrap(DATA_KEY, PLACE)


def use_of(operation: str, settings: KmsSettings) -> Use:
    """One request of this operation, prepared."""
    signer, key, wrapped = known(settings)
    if operation == "Sign":
        return lambda: signer.sign(b"data")
    return (lambda: key.wrap(DATA_KEY, PLACE)) if operation == "Encrypt" else (lambda: key.unwrap(wrapped, PLACE))


@pytest.fixture(params=USES)
def asked(request: pytest.FixtureRequest, kms: Kms) -> Asked:
    """An operation, what it is for, and one request of it."""
    fault = request.node.callspec.params.get("fault")
    use = use_of(request.param, SHORT if fault == SLOW else SETTINGS)
    kms.requests.clear()
    return request.param, USES[request.param], use


def refused(call: Callable[[], Any]) -> ShardrelError:
    with pytest.raises(ShardrelError) as caught:
        call()
    return caught.value


PASSING = [
    "ThrottlingException",
    "LimitExceededException",
    "KMSInternalException",
    "KeyUnavailableException",
    BUSY,
    CUT,
    EMPTY,
    GARBLED,
    TEXT,
]


@pytest.mark.parametrize("fault", PASSING)
def test_what_may_pass_is_asked_again(kms: Kms, asked: Asked, fault: str) -> None:
    operation, _, use = asked
    kms.fail(operation, fault, times=2)
    assert use()
    assert [name for name, _ in kms.requests] == [operation] * 3


@pytest.mark.parametrize(
    ("fault", "kind", "code", "status", "times"),
    [
        ("ThrottlingException", UnavailableError, "throttled", 3, 3),
        (BUSY, UnavailableError, "throttled", 3, 3),
        ("DependencyTimeoutException", UnavailableError, "unavailable", 3, 3),
        (CUT, UnavailableError, "unavailable", 3, 3),
        (SLOW, UnavailableError, "unavailable", 3, 3),
        (EMPTY, UnavailableError, "unavailable", 3, 3),
        (GARBLED, UnavailableError, "unavailable", 3, 3),
        (TEXT, UnavailableError, "unavailable", 3, 3),
        ("SomethingNew", UnavailableError, "unavailable", 3, 1),
        ("AccessDeniedException", UnavailableError, "denied", 3, 1),
        ("ExpiredTokenException", UnavailableError, "denied", 3, 1),
        ("DisabledException", TrustError, "unusable", 1, 1),
        ("KMSInvalidStateException", TrustError, "unusable", 1, 1),
        ("InvalidKeyUsageException", TrustError, "unusable", 1, 1),
        ("NotFoundException", InvalidInputError, "no key", 2, 1),
    ],
)
def test_what_goes_wrong_has_the_code_of_its_purpose(
    kms: Kms,
    asked: Asked,
    fault: str,
    kind: type[ShardrelError],
    code: str,
    status: int,
    times: int,
) -> None:
    operation, codes, use = asked
    kms.fail(operation, fault, times=9)
    err = refused(use)
    assert (type(err), err.code, err.exit_status, len(kms.requests)) == (kind, codes[code], status, times)


def test_a_key_for_signatures_wraps_nothing_and_the_other_way_round(kms: Kms) -> None:
    assert refused(lambda: wrapping("signs").wrap(DATA_KEY, PLACE)).code == ErrorCode.KMS_KEY
    assert refused(lambda: kms_signer(ACCOUNT + "wraps", settings=SETTINGS)).code == ErrorCode.TRUST_SIGNER


@pytest.mark.parametrize("wrapped", [b"", b"x", b"x" * 6145])
def test_what_no_kms_wrapped_is_a_wrong_wrapped_key(kms: Kms, wrapped: bytes) -> None:
    err = refused(lambda: wrapping().unwrap(wrapped, PLACE))
    assert (type(err), err.code) == (IntegrityError, ErrorCode.ENCRYPTION_WRAPPED_KEY)


def test_a_data_key_comes_back_where_key_and_context_are_the_same_and_nowhere_else(kms: Kms) -> None:
    wrapped = wrapping().wrap(DATA_KEY, PLACE)
    assert wrapping().unwrap(wrapped, PLACE) == DATA_KEY
    for key, place in ((wrapping("another"), PLACE), (wrapping(), {**PLACE, "shard": "member-index"})):
        assert refused(lambda key=key, place=place: key.unwrap(wrapped, place)).code == ErrorCode.ENCRYPTION_WRAPPED_KEY


def test_without_credentials_nothing_is_asked(kms: Kms, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    kms.requests.clear()
    assert refused(lambda: wrapping().wrap(DATA_KEY, PLACE)).code == ErrorCode.KMS_DENIED
    assert not kms.requests


def test_a_service_that_is_not_there(kms: Kms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", "http://127.0.0.1:9")
    assert refused(lambda: wrapping().wrap(DATA_KEY, PLACE)).code == ErrorCode.KMS_UNAVAILABLE


def test_another_process_gets_the_key_with_its_settings(kms: Kms) -> None:
    again = pickle.loads(pickle.dumps(wrapping()))
    assert (again, again.service.settings) == (wrapping(), SETTINGS)

"""What the S3 store makes of lost, wrong and late answers to writes. A proxy makes them; moto stands behind it."""

from collections.abc import Callable

import pytest
from botocore.exceptions import CredentialRetrievalError

from shardrel.errors import ErrorCode, UnavailableError
from shardrel.store.layout import commit_key, gate_key, run_key
from shardrel.store.port import AlreadyPresent, Conflict, Lost, ObjectKey, Token, Unknown, Written
from shardrel.store.s3 import S3Store
from shardrel.store.s3_requests import connect
from tests.support.fault_proxy import (
    Action,
    FaultProxy,
    answer,
    answer_after,
    before,
    lose_answer,
    lose_request,
    pass_on,
)
from tests.support.shared_server import S3Server
from tests.support.stores import client_of, quick_settings, s3_store

STATE = gate_key("data")
RECORD = run_key("run-1")
ATTEMPTS = quick_settings().attempts
FOREVER = 1000


@pytest.fixture(params=["plain", "versioned"])
def store(request: pytest.FixtureRequest, proxy: FaultProxy) -> S3Store:
    return s3_store(request.param, proxy.url)


@pytest.fixture
def plain(proxy: FaultProxy) -> S3Store:
    return s3_store("plain", proxy.url)


def rival(store: S3Store, moto: S3Server) -> S3Store:
    """Another writer of the same keys, whose requests no fault hits."""
    bucket, _, prefix = store.url.removeprefix("s3://").partition("/")
    return S3Store(bucket, prefix, client=client_of(moto.endpoint_url), settings=quick_settings())


def swapped(store: S3Store, data: bytes, expected: Token | None) -> Token:
    outcome = store.swap(STATE, data, expected)
    assert isinstance(outcome, Written)
    return outcome.token


def bytes_at(store: S3Store, key: ObjectKey, version: str | None = None) -> bytes | None:
    stored = store.read(key, max_bytes=1000, version=version)
    return None if stored is None else stored.data


@pytest.mark.parametrize("fault", [lose_answer, answer_after(500, "InternalError"), answer_after(503, "SlowDown")])
@pytest.mark.parametrize("size", [10, 2 << 20])
def test_a_create_whose_answer_is_lost_was_written_once(
    store: S3Store, proxy: FaultProxy, fault: Action, size: int
) -> None:
    proxy.on("PUT", fault)
    written = store.create(RECORD, bytes(size))
    assert isinstance(written, Written)
    assert store.create(RECORD, bytes(size)) == AlreadyPresent(written.version)
    stored = store.read(RECORD, max_bytes=size, version=written.version)
    assert stored is not None
    assert stored.token == written.token


@pytest.mark.parametrize("fault", [lose_answer, answer_after(500, "InternalError"), answer_after(503, "SlowDown")])
def test_a_swap_whose_answer_is_lost_was_written_once(store: S3Store, proxy: FaultProxy, fault: Action) -> None:
    token = swapped(store, b"1", None)
    proxy.on("PUT", fault)
    written = store.swap(STATE, b"2", token)
    assert isinstance(written, Written)
    assert bytes_at(store, STATE, written.version) == b"2"
    swapped(store, b"3", written.token)


def test_a_lost_request_is_sent_again_under_its_write_id(store: S3Store, proxy: FaultProxy) -> None:
    proxy.on("PUT", lose_request)
    assert isinstance(store.create(RECORD, b"1"), Written)
    proxy.on("PUT", answer(500, "InternalError"))
    assert isinstance(store.swap(STATE, b"1", None), Written)
    ids = [request.headers["x-amz-meta-shardrel-write-id"] for request in proxy.sent("PUT")]
    assert ids[0] == ids[1] != ids[2] == ids[3]


def test_a_create_that_another_writer_beat_is_judged_by_its_bytes(
    store: S3Store, proxy: FaultProxy, moto: S3Server
) -> None:
    other = rival(store, moto)
    proxy.on("PUT", before(lambda: other.create(RECORD, b"theirs"), lose_request))
    assert store.create(RECORD, b"ours") == Conflict()
    key = commit_key("run-1", 1)
    proxy.on("PUT", before(lambda: other.create(key, b"same"), lose_request))
    assert isinstance(store.create(key, b"same"), AlreadyPresent)


def test_a_swap_that_never_landed_is_lost_when_the_winner_replaced_the_same_bytes(
    store: S3Store, proxy: FaultProxy, moto: S3Server
) -> None:
    token = swapped(store, b"1", None)
    proxy.on("PUT", before(lambda: rival(store, moto).swap(STATE, b"theirs", token), lose_request))
    assert store.swap(STATE, b"ours", token) == Lost()


def test_a_first_swap_that_never_landed_is_lost_when_the_winner_made_the_key(
    store: S3Store, proxy: FaultProxy, moto: S3Server
) -> None:
    proxy.on("PUT", before(lambda: rival(store, moto).swap(STATE, b"theirs", None), lose_request))
    assert store.swap(STATE, b"ours", None) == Lost()


def test_a_swap_that_landed_and_was_superseded_is_unknown_and_never_lost(
    store: S3Store, proxy: FaultProxy, moto: S3Server
) -> None:
    token, other = swapped(store, b"1", None), rival(store, moto)
    proxy.on("PUT", lose_answer)
    proxy.on("HEAD", before(lambda: supersede(other), pass_on))
    assert isinstance(store.swap(STATE, b"ours", token), Unknown)


def supersede(store: S3Store) -> None:
    stored = store.read(STATE, max_bytes=10)
    assert stored is not None
    assert stored.data == b"ours"
    swapped(store, b"theirs", stored.token)


def test_a_write_that_is_never_answered_is_unknown_and_nothing_is_cleaned_up(store: S3Store, proxy: FaultProxy) -> None:
    token = swapped(store, b"1", None)
    proxy.on("PUT", lose_request, FOREVER)
    assert isinstance(store.swap(STATE, b"2", token), Unknown)
    assert isinstance(store.create(RECORD, b"1"), Unknown)
    assert proxy.sent("DELETE") == []


def test_a_write_that_cannot_be_read_back_is_unknown(store: S3Store, proxy: FaultProxy) -> None:
    proxy.on("PUT", lose_answer, 2)
    proxy.on("HEAD", lose_request, FOREVER)
    assert isinstance(store.create(RECORD, b"1"), Unknown)
    assert isinstance(store.swap(STATE, b"1", None), Unknown)


@pytest.mark.parametrize(("status", "code"), [(409, "ConditionalRequestConflict"), (503, "SlowDown")])
def test_ask_again_is_asked_again_and_signed_anew(store: S3Store, proxy: FaultProxy, status: int, code: str) -> None:
    proxy.on("PUT", answer(status, code), ATTEMPTS - 1)
    assert isinstance(store.create(RECORD, b"1"), Written)
    proxy.on("PUT", answer(status, code), ATTEMPTS - 1)
    assert isinstance(store.swap(STATE, b"1", None), Written)
    assert len(proxy.sent("PUT")) == 2 * ATTEMPTS


@pytest.mark.parametrize(("status", "code"), [(409, "ConditionalRequestConflict"), (503, "SlowDown")])
def test_ask_again_for_ever_ends_in_contention(plain: S3Store, proxy: FaultProxy, status: int, code: str) -> None:
    proxy.on("PUT", answer(status, code), FOREVER)
    for write in (lambda: plain.create(RECORD, b"1"), lambda: plain.swap(STATE, b"1", None)):
        with pytest.raises(UnavailableError) as failed:
            write()
        assert failed.value.code is ErrorCode.STORE_CONTENTION
    assert len(proxy.sent("PUT")) == 2 * ATTEMPTS


def test_not_found_to_a_swap_means_absent_and_makes_nothing(plain: S3Store, proxy: FaultProxy) -> None:
    assert plain.swap(STATE, b"1", Token("0123")) == Lost()
    assert len(proxy.sent("PUT")) == 1
    assert bytes_at(plain, STATE) is None


@pytest.mark.parametrize("code", ["AccessDenied", "RequestTimeTooSkewed", "SignatureDoesNotMatch"])
def test_denied_access_fails_at_once(plain: S3Store, proxy: FaultProxy, code: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        "PUT": lambda: plain.create(RECORD, b"1"),
        "GET": lambda: plain.read(RECORD, max_bytes=1),
    }
    for method, call in calls.items():
        proxy.on(method, answer(403, code), FOREVER)
        with pytest.raises(UnavailableError) as failed:
            call()
        assert failed.value.code is ErrorCode.STORE_DENIED
        assert len(proxy.sent(method)) == 1


def without_credentials_for(operation: str, proxy: FaultProxy, *, skip: int = 0) -> S3Store:
    """A store of its own whose credentials run out: the requests of one operation behind the first ``skip``."""
    store = s3_store("plain", proxy.url)
    client = connect(proxy.url, quick_settings())
    left = [skip]

    def run_out(**_: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise CredentialRetrievalError(provider="tests", error_msg="expired")

    client.meta.events.register(f"before-sign.s3.{operation}", run_out)
    bucket, _, prefix = store.url.removeprefix("s3://").partition("/")
    return S3Store(bucket, prefix, client=client, settings=quick_settings())


@pytest.mark.parametrize(
    ("fault", "operation", "skip"), [(lose_answer, "HeadObject", 0), (lose_request, "PutObject", 1)]
)
def test_a_write_that_went_unanswered_stays_unknown_when_credentials_run_out(
    proxy: FaultProxy, fault: Action, operation: str, skip: int
) -> None:
    store = without_credentials_for(operation, proxy, skip=skip)
    proxy.on("PUT", fault)
    assert isinstance(store.swap(STATE, b"1", None), Unknown)
    again = without_credentials_for(operation, proxy, skip=skip)
    proxy.on("PUT", fault)
    assert isinstance(again.create(RECORD, b"1"), Unknown)


def test_a_write_that_was_never_sent_is_denied_without_credentials(proxy: FaultProxy) -> None:
    with pytest.raises(UnavailableError) as failed:
        without_credentials_for("PutObject", proxy).swap(STATE, b"1", None)
    assert failed.value.code == ErrorCode.STORE_DENIED
    assert proxy.sent("PUT") == []

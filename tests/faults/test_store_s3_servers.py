"""What the S3 store makes of broken bodies and listings, and of servers that do as they like. moto stands behind a proxy."""

from collections.abc import Callable
from dataclasses import replace
from threading import Event

import pytest

from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, IntegrityError, NotFoundError, RefusedError, UnavailableError
from shardrel.store.layout import commit_key, gate_key, object_key, run_key
from shardrel.store.objects import get, put
from shardrel.store.port import ObjectKey, Token, Unknown, Written
from shardrel.store.probe import probe
from shardrel.store.promises import Effort
from shardrel.store.s3 import S3Store
from shardrel.store.s3_requests import S3Settings, connect
from shardrel.store.verdicts import conforming, keep
from tests.support.fault_proxy import (
    Action,
    FaultProxy,
    Forward,
    Request,
    Response,
    answer,
    ignore_conditions,
    lose_request,
    truncate,
    without_length,
)
from tests.support.shared_server import S3Server
from tests.support.stores import client_of, quick_settings, s3_store

STATE = gate_key("data")
RECORD = run_key("run-1")
ATTEMPTS = quick_settings().attempts
FOREVER = 1000
QUICK = Effort(racers=2, processes=0, rounds=1, listed=3)


@pytest.fixture(params=["plain", "versioned"])
def store(request: pytest.FixtureRequest, proxy: FaultProxy) -> S3Store:
    return s3_store(request.param, proxy.url)


@pytest.fixture
def plain(proxy: FaultProxy) -> S3Store:
    return s3_store("plain", proxy.url)


def swapped(store: S3Store, data: bytes, expected: Token | None) -> Token:
    outcome = store.swap(STATE, data, expected)
    assert isinstance(outcome, Written)
    return outcome.token


def bytes_at(store: S3Store, key: ObjectKey, version: str | None = None) -> bytes | None:
    stored = store.read(key, max_bytes=1000, version=version)
    return None if stored is None else stored.data


@pytest.mark.parametrize("fault", [lose_request, answer(503, "SlowDown"), answer(500, "InternalError")])
def test_reads_are_sent_again_within_a_bound(plain: S3Store, proxy: FaultProxy, fault: Action) -> None:
    plain.create(RECORD, b"1")
    proxy.on("GET", fault, ATTEMPTS - 1)
    assert bytes_at(plain, RECORD) == b"1"
    proxy.on("GET", fault, ATTEMPTS)
    with pytest.raises(UnavailableError):
        plain.read(RECORD, max_bytes=1)


@pytest.mark.parametrize("keep", [lambda n: n - 1, lambda n: n // 2, lambda n: 0], ids=["N-1", "N/2", "0"])
def test_a_body_that_ends_early_is_read_again(store: S3Store, proxy: FaultProxy, keep: Callable[[int], int]) -> None:
    data = bytes(range(256)) * 1000
    written = store.create(RECORD, data)
    assert isinstance(written, Written)
    for version in (None, written.version):
        proxy.on("GET", truncate(keep), ATTEMPTS - 1)
        stored = store.read(RECORD, max_bytes=len(data), version=version)
        assert stored is not None
        assert stored.data == data


def test_a_body_that_always_ends_early_is_unavailable(plain: S3Store, proxy: FaultProxy) -> None:
    plain.create(RECORD, bytes(100))
    proxy.on("GET", truncate(lambda n: n - 1), FOREVER)
    with pytest.raises(UnavailableError) as failed:
        plain.read(RECORD, max_bytes=100)
    assert failed.value.code is ErrorCode.STORE_UNAVAILABLE


def test_a_server_that_stalls_is_left(proxy: FaultProxy) -> None:
    patient, hasty = s3_store("plain", proxy.url), s3_store("plain", proxy.url, read_timeout=0.2)
    patient.create(RECORD, b"1")
    released = Event()

    def stall(request: Request, forward: Forward) -> None:
        released.wait(10)

    proxy.on("GET", stall, FOREVER)
    with pytest.raises(UnavailableError):
        hasty.read(RECORD, max_bytes=1)
    proxy.on("PUT", stall, FOREVER)
    assert isinstance(hasty.create(RECORD, b"1"), Unknown)
    released.set()


def test_a_body_without_a_length_is_bounded(plain: S3Store, proxy: FaultProxy) -> None:
    data = bytes(3 << 20)
    plain.create(RECORD, data)
    proxy.on("GET", without_length, FOREVER)
    stored = plain.read(RECORD, max_bytes=len(data))
    assert stored is not None
    assert stored.data == data
    with pytest.raises(IntegrityError) as refused:
        plain.read(RECORD, max_bytes=len(data) - 1)
    assert refused.value.code is ErrorCode.STORAGE_TOO_LARGE


def test_a_body_of_a_terabyte_is_refused_before_it_is_read(plain: S3Store, proxy: FaultProxy) -> None:
    plain.create(RECORD, b"1")
    proxy.on("GET", lambda request, forward: replace(forward(request), claimed=1 << 40, cut=1))
    with pytest.raises(IntegrityError) as refused:
        plain.read(RECORD, max_bytes=1 << 20)
    assert refused.value.code is ErrorCode.STORAGE_TOO_LARGE


def pages_of(size: int) -> Callable[[Request, Forward], Response]:
    return lambda request, forward: forward(replace(request, path=f"{request.path}&max-keys={size}"))


def rewritten(change: Callable[[bytes], bytes]) -> Callable[[Request, Forward], Response]:
    def act(request: Request, forward: Forward) -> Response:
        response = pages_of(2)(request, forward)
        return replace(response, body=change(response.body))

    return act


def test_a_listing_goes_on_to_its_last_page(plain: S3Store, proxy: FaultProxy) -> None:
    keys = [commit_key("run-1", number) for number in range(5)]
    for key in keys:
        plain.create(key, b"")
    proxy.on("GET", pages_of(2), FOREVER)
    assert sorted(plain.list("runs/")) == keys
    assert len(proxy.sent("GET")) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.replace(b"NextContinuationToken", b"NoSuchToken"),
        lambda body: (
            body.split(b"<NextContinuationToken>")[0]
            + b"<NextContinuationToken>again</NextContinuationToken>"
            + body.split(b"</NextContinuationToken>")[-1]
        ),
    ],
    ids=["no token", "the same token"],
)
def test_a_listing_that_breaks_off_stops_the_work(
    plain: S3Store, proxy: FaultProxy, change: Callable[[bytes], bytes]
) -> None:
    for number in range(5):
        plain.create(commit_key("run-1", number), b"")
    proxy.on("GET", rewritten(change), FOREVER)
    with pytest.raises(UnavailableError):
        list(plain.list("runs/"))


def test_the_probe_refuses_a_server_that_ignores_conditions(plain: S3Store, proxy: FaultProxy) -> None:
    proxy.on("PUT", ignore_conditions, FOREVER)
    verdict = probe(plain, QUICK)
    assert verdict.verdict == "FAILED"
    failed = {check.name for check in verdict.checks if not check.ok}
    assert {"create-second-refused", "create-race", "swap-stale-lost", "swap-absent-lost", "swap-race"} <= failed
    with pytest.raises(RefusedError) as refused:
        verdict.require()
    assert refused.value.code is ErrorCode.STORAGE_NOT_CONFORMANT


def want_bare(request: Request, forward: Forward) -> Response:
    """A server that knows ETags in conditions only without their quotes."""
    token = request.headers.get("If-Match")
    if token is None:
        return forward(request)
    if token.startswith('"'):
        return Response(status=412, headers={}, body=b"<Error><Code>PreconditionFailed</Code></Error>")
    return forward(replace(request, headers={**request.headers, "If-Match": f'"{token}"'}))


def test_a_server_that_wants_bare_etags_gets_them_after_its_probe(plain: S3Store, proxy: FaultProxy) -> None:
    proxy.on("PUT", want_bare, FOREVER)
    token = swapped(plain, b"1", None)
    with pytest.raises(RefusedError) as refused:
        plain.swap(STATE, b"2", token)
    assert refused.value.code is ErrorCode.STORAGE_NOT_CONFORMANT
    found = probe(plain, QUICK)
    assert (found.verdict, found.quoted_tokens) == ("PASSED", False)
    keep(plain, "data", found, "2026-01-31T12:00:00Z")
    assert isinstance(conforming(plain, "data").swap(STATE, b"2", token), Written)


def test_a_server_without_conditional_requests_is_refused(plain: S3Store, proxy: FaultProxy) -> None:
    proxy.on("PUT", answer(501, "NotImplemented"), FOREVER)
    with pytest.raises(RefusedError) as refused:
        plain.create(RECORD, b"1")
    assert refused.value.code is ErrorCode.STORAGE_NOT_CONFORMANT


def test_patience_ends_before_the_attempts_do(proxy: FaultProxy) -> None:
    hasty = S3Store("plain", "hasty", client=client_of(proxy.url), settings=replace(quick_settings(), patience=-1))
    proxy.on("PUT", lose_request, FOREVER)
    assert isinstance(hasty.create(RECORD, b"1"), Unknown)
    proxy.on("GET", lose_request, FOREVER)
    with pytest.raises(UnavailableError):
        hasty.read(RECORD, max_bytes=1)
    assert [request.method for request in proxy.requests] == ["PUT", "HEAD", "GET"]


def test_a_server_that_ignores_versions_has_none(proxy: FaultProxy) -> None:
    store = s3_store("versioned", proxy.url)
    first = store.swap(STATE, b"1", None)
    assert isinstance(first, Written)
    swapped(store, b"2", first.token)
    proxy.on("GET", lambda request, forward: forward(replace(request, path=request.path.partition("?")[0])), FOREVER)
    assert bytes_at(store, STATE, first.version) is None
    assert bytes_at(store, STATE) == b"2"


@pytest.mark.parametrize("etag", [None, '"0123-3"', '"no md5 at all"', "bare"])
def test_an_etag_is_only_a_token(plain: S3Store, proxy: FaultProxy, etag: str | None) -> None:
    """A PUT without an ETag is read back; any other ETag is taken as it is."""

    def act(request: Request, forward: Forward) -> Response:
        response = forward(request)
        headers = {name: value for name, value in response.headers.items() if name.lower() != "etag"}
        return replace(response, headers=headers if etag is None else {**headers, "ETag": etag})

    proxy.on("PUT", act)
    written = plain.create(RECORD, b"1")
    assert isinstance(written, Written)
    if etag is None:
        assert bytes_at(plain, RECORD, written.version) == b"1"
    else:
        assert written.version == "etag:" + etag.strip('"')


def test_a_server_that_stores_the_frame_of_a_body_is_found_out(plain: S3Store, proxy: FaultProxy) -> None:
    def frame(request: Request, forward: Forward) -> Response:
        return forward(replace(request, body=b"6\r\n" + request.body + b"\r\n0\r\nx-amz-checksum:AA==\r\n"))

    proxy.on("PUT", frame)
    descriptor, _ = put(plain, b"framed", "text/plain")
    with pytest.raises((IntegrityError, NotFoundError)) as refused:
        get(plain, descriptor)
    assert refused.value.code in (ErrorCode.STORAGE_TOO_LARGE, ErrorCode.STORAGE_SIZE, ErrorCode.STORAGE_DIGEST)


def test_bodies_are_sent_unframed_with_their_digest(plain: S3Store, proxy: FaultProxy) -> None:
    plain.create(object_key(digest_of(b"body")), b"body")
    (request,) = proxy.sent("PUT")
    assert request.body == b"body"
    assert request.headers["X-Amz-Content-SHA256"] == digest_of(b"body").removeprefix("sha256:")
    names = {name.lower() for name in request.headers}
    assert not names & {"content-encoding", "x-amz-trailer", "x-amz-sdk-checksum-algorithm", "x-amz-checksum-crc32"}


@pytest.mark.usefixtures("moto")
def test_a_bucket_that_does_not_exist_is_unavailable(moto: S3Server) -> None:
    store = s3_store("no-such-bucket", moto.endpoint_url)
    for call in (
        lambda: store.read(RECORD, max_bytes=1),
        lambda: store.create(RECORD, b"1"),
        lambda: list(store.list("")),
    ):
        with pytest.raises(UnavailableError) as failed:
            call()
        assert failed.value.code is ErrorCode.STORE_UNAVAILABLE


@pytest.mark.usefixtures("moto")
def test_a_server_that_is_not_there_is_unavailable_and_not_unknown() -> None:
    store = s3_store("plain", "http://127.0.0.1:9")
    for call in (
        lambda: store.read(RECORD, max_bytes=1),
        lambda: store.create(RECORD, b"1"),
        lambda: store.swap(STATE, b"1", None),
    ):
        with pytest.raises(UnavailableError) as failed:
            call()
        assert failed.value.code is ErrorCode.STORE_UNAVAILABLE


def test_without_credentials_access_is_denied(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    settings = S3Settings(attempts=1)
    store = S3Store("plain", "", client=connect(moto.endpoint_url, settings), settings=settings)
    with pytest.raises(UnavailableError) as failed:
        store.read(RECORD, max_bytes=1)
    assert failed.value.code is ErrorCode.STORE_DENIED

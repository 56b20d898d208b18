"""A look at an S3 object: the first bytes of a body that breaks off, of servers without ranges, and in doubt."""

from dataclasses import replace
from functools import partial

import pytest

from shardrel.errors import ErrorCode, UnavailableError
from shardrel.store.layout import object_key
from shardrel.store.port import Looked, Written
from shardrel.store.s3 import S3Store
from tests.support.fault_proxy import FaultProxy, Forward, Request, Response, answer, lose_answer, truncate
from tests.support.stores import s3_store

KEY = object_key("sha256:" + "ab" * 32)
DATA = bytes(range(256)) * 64


@pytest.fixture
def store(proxy: FaultProxy) -> S3Store:
    return s3_store("plain", proxy.url)


@pytest.fixture
def looked(store: S3Store, proxy: FaultProxy) -> Looked:
    """What a look at the object that is there shows, 100 bytes of it."""
    written = store.create(KEY, DATA)
    assert isinstance(written, Written)
    proxy.requests.clear()
    return Looked(len(DATA), written.version, DATA[:100])


def without_ranges(request: Request, forward: Forward) -> Response:
    kept = {name: value for name, value in request.headers.items() if name.lower() != "range"}
    return forward(replace(request, headers=kept))


def without_total(request: Request, forward: Forward) -> Response:
    response = forward(request)
    kept = {name: value for name, value in response.headers.items() if name.lower() != "content-range"}
    return replace(response, headers={**kept, "Content-Range": "bytes 0-99/*"})


def test_one_request_asks_for_no_more_than_is_wanted(store: S3Store, proxy: FaultProxy, looked: Looked) -> None:
    assert store.look(KEY, first=100) == looked
    assert [(sent.method, sent.headers["Range"]) for sent in proxy.requests] == [("GET", "bytes=0-99")]


def test_a_server_that_knows_no_ranges_shows_the_same(store: S3Store, proxy: FaultProxy, looked: Looked) -> None:
    proxy.on("GET", without_ranges)
    assert store.look(KEY, first=100) == looked
    assert len(proxy.sent("GET")) == 1


@pytest.mark.parametrize(
    "fault",
    [
        lose_answer,
        truncate(lambda size: size // 2),
        answer(503, "SlowDown"),
        answer(500, "InternalError"),
        without_total,
    ],
    ids=["no answer", "cut short", "busy", "failed", "size not told"],
)
def test_what_is_not_told_is_asked_again(store: S3Store, proxy: FaultProxy, looked: Looked, fault: object) -> None:
    proxy.on("GET", fault)  # type: ignore[arg-type]
    assert store.look(KEY, first=100) == looked
    assert len(proxy.sent("GET")) == 2


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (truncate(lambda size: size // 2), ErrorCode.STORE_UNAVAILABLE),
        (answer(403, "AccessDenied"), ErrorCode.STORE_DENIED),
        (answer(404, "NoSuchBucket"), ErrorCode.STORE_UNAVAILABLE),
    ],
    ids=["cut short for ever", "denied", "no bucket"],
)
@pytest.mark.usefixtures("looked")
def test_what_is_not_told_is_never_absent(store: S3Store, proxy: FaultProxy, fault: object, code: ErrorCode) -> None:
    proxy.on("GET", fault, 9)  # type: ignore[arg-type]
    for look in (partial(store.look, KEY), partial(store.look, KEY, first=100)):
        with pytest.raises(UnavailableError) as caught:
            look()
        assert caught.value.code == code

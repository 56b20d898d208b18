"""Big digest-addressed objects go up in parts: on real servers, and with every kind of broken completion."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from uuid import uuid4

import pytest

from shardrel.digest import digest_of
from shardrel.store.layout import object_key, run_key
from shardrel.store.objects import get, put
from shardrel.store.port import AlreadyPresent, Conflict, ObjectKey, Unknown, Written
from shardrel.store.s3 import S3Store
from tests.support.fault_proxy import Action, FaultProxy, Forward, Request, Response, answer, answer_after, lose_answer
from tests.support.shared_server import S3Server
from tests.support.stores import client_of, quick_settings

FROM = 6 << 20
PART = 5 << 20
DATA = b"0123456789abcdef" * (11 << 16)
KEY = object_key(digest_of(DATA))
EXCLUSIVE = run_key("run-1")
FOREVER = 1000
RACERS = 4


def in_parts(bucket: str, endpoint_url: str) -> S3Store:
    settings = replace(quick_settings(), multipart_from=FROM, part_bytes=PART)
    return S3Store(bucket, f"test-{uuid4().hex[:12]}", client=client_of(endpoint_url), settings=settings)


@pytest.fixture(params=["seaweed", "seaweed-versioned", "ministack", "ministack-versioned"])
def store(request: pytest.FixtureRequest) -> S3Store:
    name, _, versioned = request.param.partition("-")
    server: S3Server = request.getfixturevalue(name)
    return in_parts(server.versioned if versioned else server.plain, server.endpoint_url)


@pytest.fixture
def behind(proxy: FaultProxy) -> S3Store:
    return in_parts("plain", proxy.url)


def bytes_at(store: S3Store, key: ObjectKey, version: str | None = None) -> bytes | None:
    stored = store.read(key, max_bytes=len(DATA), version=version)
    return None if stored is None else stored.data


def on_completion(fault: Action) -> Action:
    return lambda request, forward: fault(request, forward) if "uploadId=" in request.path else forward(request)


def test_a_big_object_comes_back_by_its_version(store: S3Store) -> None:
    descriptor, before = put(store, DATA, "application/octet-stream")
    assert (descriptor.digest, before) == (digest_of(DATA), False)
    assert get(store, descriptor) == DATA
    assert put(store, memoryview(DATA), "application/octet-stream") == (descriptor, True)
    assert store.open_uploads() == 0


def test_racers_for_a_big_object_all_succeed(store: S3Store) -> None:
    start = Barrier(RACERS)

    def create(_: int) -> Written | AlreadyPresent | Conflict | Unknown:
        start.wait()
        return store.create(KEY, DATA)

    with ThreadPoolExecutor(RACERS) as pool:
        outcomes = list(pool.map(create, range(RACERS)))
    assert all(isinstance(outcome, Written | AlreadyPresent) for outcome in outcomes)
    for outcome in outcomes:
        assert isinstance(outcome, Written | AlreadyPresent)
        assert bytes_at(store, KEY, outcome.version) == DATA


def test_only_big_digest_addressed_objects_are_uploads(behind: S3Store, proxy: FaultProxy) -> None:
    assert isinstance(behind.create(EXCLUSIVE, DATA), Written)
    assert isinstance(behind.create(object_key(digest_of(DATA[: FROM - 1])), DATA[: FROM - 1]), Written)
    assert proxy.sent("POST") == []
    assert isinstance(behind.create(KEY, DATA), Written)
    parts = [request for request in proxy.sent("PUT") if "partNumber=" in request.path]
    assert [len(part.body) for part in parts] == [PART, PART, len(DATA) - 2 * PART]
    assert len(proxy.sent("POST")) == 2


@pytest.mark.parametrize(
    "fault",
    [lose_answer, answer_after(500, "InternalError"), answer_after(503, "SlowDown")],
    ids=["lost", "500", "503"],
)
def test_a_completion_whose_answer_is_lost_was_written_once(behind: S3Store, proxy: FaultProxy, fault: Action) -> None:
    proxy.on("POST", on_completion(fault), 2)
    outcome = behind.create(KEY, DATA)
    assert isinstance(outcome, Written | AlreadyPresent)
    assert bytes_at(behind, KEY, outcome.version) == DATA
    assert behind.create(KEY, DATA) == AlreadyPresent(outcome.version)


@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "NoSuchUpload"])
def test_a_completion_that_did_not_happen_begins_a_new_upload(behind: S3Store, proxy: FaultProxy, code: str) -> None:
    proxy.on("POST", on_completion(answer(404 if code == "NoSuchUpload" else 409, code)), 2)
    assert isinstance(behind.create(KEY, DATA), Written)
    assert bytes_at(behind, KEY) == DATA


def test_a_completion_that_says_ok_and_did_nothing_is_found_out(behind: S3Store, proxy: FaultProxy) -> None:
    ok = b"<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"

    def lie(request: Request, forward: Forward) -> Response:
        return Response(status=200, headers={"Content-Type": "application/xml"}, body=ok)

    proxy.on("POST", on_completion(lie), 2)
    assert isinstance(behind.create(KEY, DATA), Written)
    assert bytes_at(behind, KEY) == DATA


def test_parts_are_sent_again(behind: S3Store, proxy: FaultProxy) -> None:
    proxy.on("PUT", lose_answer)
    proxy.on("PUT", answer(503, "SlowDown"))
    assert isinstance(behind.create(KEY, DATA), Written)
    assert len(proxy.sent("POST")) == 2
    assert bytes_at(behind, KEY) == DATA


def test_a_completion_that_is_never_answered_is_unknown_and_nothing_is_cleaned_up(
    behind: S3Store, proxy: FaultProxy
) -> None:
    proxy.on("POST", on_completion(answer(500, "InternalError")), FOREVER)
    assert isinstance(behind.create(KEY, DATA), Unknown)
    assert proxy.sent("DELETE") == []
    assert bytes_at(behind, KEY) is None
    assert behind.open_uploads() == quick_settings().attempts
    proxy.reset()
    assert isinstance(behind.create(KEY, DATA), Written)


def test_an_upload_over_other_bytes_is_a_conflict_and_aborted(store: S3Store) -> None:
    assert isinstance(store.create(EXCLUSIVE, b"other"), Written)
    assert store.create_in_parts(EXCLUSIVE, DATA) == Conflict()
    assert bytes_at(store, EXCLUSIVE) == b"other"
    assert store.open_uploads() == 0

"""What the probe says of servers that break a promise, each in one way, and of the rest of what they do."""

import time
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

from shardrel.errors import ErrorCode, IntegrityError, RefusedError, UnavailableError
from shardrel.store.layout import gate_key, probe_key
from shardrel.store.local import LocalStore
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Address, ObjectKey, SwapOutcome, Token, Written
from shardrel.store.probe import ProbeVerdict, probe
from shardrel.store.promises import Effort
from shardrel.store.racers import racers
from shardrel.store.s3 import S3Store
from shardrel.store.verdicts import conforming, keep, kept
from tests.support.fault_proxy import Action, FaultProxy, Forward, Request, Response, answer
from tests.support.shared_server import S3Server
from tests.support.stores import s3_store

RACERS = 2
QUICK = Effort(racers=RACERS, processes=0, rounds=1, listed=3)
FOREVER = 100_000
NOW = "2026-01-31T12:00:00Z"


@pytest.fixture(params=["plain"])
def store(request: pytest.FixtureRequest, proxy: FaultProxy) -> S3Store:
    return s3_store(request.param, proxy.url)


both_buckets = pytest.mark.parametrize("store", ["plain", "versioned"], indirect=True)


def failed(verdict: ProbeVerdict, *, required: bool = True) -> set[str]:
    return {check.name for check in verdict.checks if check.required == required and not check.ok}


def without_conditions(request: Request) -> Request:
    kept = {name: value for name, value in request.headers.items() if name.lower() not in ("if-match", "if-none-match")}
    return replace(request, headers=kept)


def check_then_act(racers: int) -> Action:
    """A server that looks whether the condition holds and then writes, with nothing in between but time.

    That is how moto loses updates under threads. Here all racers have looked before the first one writes.
    """
    looked = Barrier(racers)

    def act(request: Request, forward: Forward) -> Response:
        plain = without_conditions(request)
        if plain.headers == request.headers:
            return forward(request)
        there = forward(replace(plain, method="HEAD", body=b""))
        etag = (
            {name.lower(): value for name, value in there.headers.items()}.get("etag") if there.status == 200 else None
        )
        wanted = request.headers.get("If-Match")
        if etag != wanted:
            return answer(412, "PreconditionFailed")(request, forward) or there
        if request.body.startswith(b"racer"):
            looked.wait()
        return forward(plain)

    return act


@both_buckets
def test_a_server_that_checks_and_then_acts_is_refused_for_its_races_and_nothing_else(
    store: S3Store, proxy: FaultProxy
) -> None:
    proxy.on("PUT", check_then_act(RACERS), FOREVER)
    verdict = probe(store, QUICK)
    assert failed(verdict) == {"create-race", "swap-race"}
    with pytest.raises(RefusedError) as refused:
        verdict.require()
    assert refused.value.context["checks"] == ["create-race", "swap-race"]


def test_the_same_server_passes_as_long_as_nobody_races(store: S3Store, proxy: FaultProxy) -> None:
    proxy.on("PUT", check_then_act(1), FOREVER)
    assert failed(probe(store, replace(QUICK, racers=1))) == set()


def never(request: Request, forward: Forward) -> Response | None:
    """Versioned buckets of an old Ceph: a create replaces, and no ETag ever fits."""
    if "If-Match" in request.headers:
        return answer(412, "PreconditionFailed")(request, forward)
    return forward(without_conditions(request))


@both_buckets
def test_a_server_that_ignores_creates_and_refuses_all_swaps_is_refused(store: S3Store, proxy: FaultProxy) -> None:
    proxy.on("PUT", never, FOREVER)
    verdict = probe(store, QUICK)
    assert verdict.quoted_tokens
    assert {"create-second-refused", "create-race", "swap-stale-lost", "swap-race"} <= failed(verdict)
    assert "read-after-write" not in failed(verdict)


@both_buckets
def test_a_deleted_key_that_comes_back_is_noticed(store: S3Store, proxy: FaultProxy) -> None:
    """A DELETE that is answered and not done."""
    proxy.on("DELETE", lambda request, forward: Response(status=204, headers={}, body=b""), FOREVER)
    assert failed(probe(store, QUICK)) == {"delete-marker"}


def test_whoever_may_not_delete_passes(store: S3Store, proxy: FaultProxy) -> None:
    proxy.on("DELETE", answer(403, "AccessDenied"), FOREVER)
    verdict = probe(store, QUICK)
    assert failed(verdict) == set()
    assert "delete-exact-version" in failed(verdict, required=False)


def test_conditions_that_an_upload_ignores_are_reported_without_effect_on_the_verdict(
    store: S3Store, proxy: FaultProxy
) -> None:
    proxy.on("POST", lambda request, forward: forward(without_conditions(request)), FOREVER)
    verdict = probe(store, QUICK)
    assert failed(verdict) == set()
    assert "multipart-completion" in failed(verdict, required=False)


def test_uploads_that_were_left_behind_are_counted(store: S3Store, moto: S3Server) -> None:
    bucket, _, prefix = store.url.removeprefix("s3://").partition("/")
    begun = moto.client().create_multipart_upload(Bucket=bucket, Key=f"{prefix}/objects/left")
    assert store.open_uploads() == 1
    verdict = probe(store, QUICK)
    assert failed(verdict) == set()
    assert "uploads-closed" in failed(verdict, required=False)
    moto.client().abort_multipart_upload(Bucket=bucket, Key=f"{prefix}/objects/left", UploadId=begun["UploadId"])
    assert store.open_uploads() == 0


def test_a_store_that_does_not_answer_has_no_verdict(store: S3Store, proxy: FaultProxy) -> None:
    proxy.on("GET", answer(500, "InternalError"), FOREVER)
    with pytest.raises(UnavailableError):
        probe(store, QUICK)


def test_other_processes_race_for_a_folder(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with racers(store, 2, 2) as field:
        assert field.count == 6
        raced = field.race(store, gate_key("data"), "swap", None)
    assert sorted(racer.outcome for racer in raced) == ["lost"] * 5 + ["won"]
    [winner] = [racer for racer in raced if racer.outcome == "won"]
    stored = store.read(gate_key("data"), max_bytes=100)
    assert stored is not None
    assert (stored.data, stored.version) == (winner.data, winner.version)


class Unlocked(LocalStore):
    """What a lock does that holds among threads and not among processes: this swap looked before the other one."""

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        if not data.startswith(b"racer"):
            return super().swap(key, data, expected)
        while (now := self.read(key, max_bytes=100)) is None or now.token == expected:
            time.sleep(0.001)
        return super().swap(key, data, now.token)


def test_a_lock_that_holds_among_threads_alone_is_found_out(tmp_path: Path) -> None:
    assert failed(probe(Unlocked(tmp_path), replace(QUICK, racers=1, processes=1))) == {"swap-race"}


def test_a_store_in_memory_is_raced_by_threads_alone() -> None:
    with racers(MemoryStore(), 3, 2) as field:
        assert field.count == 3


class Elsewhere(LocalStore):
    """A store that another process cannot open."""

    @property
    def address(self) -> Address:
        return Address(url="gopher://nowhere", endpoint_url=None, quoted_tokens=True)


def test_a_process_that_cannot_open_the_store_says_nothing_about_it(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError) as gone, racers(Elsewhere(tmp_path), 1, 1):
        raise AssertionError
    assert gone.value.code is ErrorCode.STORE_UNAVAILABLE


def test_a_failed_verdict_is_kept_where_it_can_be_and_refuses(store: S3Store, proxy: FaultProxy) -> None:
    proxy.on("PUT", check_then_act(RACERS), FOREVER)
    keep(store, "data", probe(store, QUICK), NOW)
    proxy.reset()
    with pytest.raises(RefusedError) as refused:
        conforming(store, "data")
    assert refused.value.code is ErrorCode.STORAGE_NOT_CONFORMANT
    assert refused.value.context["checks"] == ["create-race", "swap-race"]
    keep(store, "data", probe(store, QUICK), NOW)
    assert isinstance(conforming(store, "data").swap(gate_key("data"), b"1", None), Written)


def test_a_gate_on_a_server_that_nobody_probed_is_refused(store: S3Store) -> None:
    assert conforming(store, "data") is store
    store.swap(gate_key("data"), b"a gate", None)
    with pytest.raises(RefusedError) as refused:
        conforming(store, "data")
    assert refused.value.code is ErrorCode.STORAGE_NOT_CONFORMANT


def test_a_gate_in_a_folder_needs_no_verdict(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.swap(gate_key("data"), b"a gate", None)
    assert conforming(store, "data") is store


@pytest.mark.parametrize("written", [b"", b"{}", b'{"verdict":"PASSED"}', bytes(100)])
def test_a_verdict_that_cannot_be_read_is_none(written: bytes) -> None:
    store = MemoryStore()
    store.swap(probe_key("data"), written, None)
    assert kept(store, "data") is None


def test_a_verdict_of_a_terabyte_is_not_read() -> None:
    store = MemoryStore()
    store.swap(probe_key("data"), bytes(1 << 20), None)
    with pytest.raises(IntegrityError):
        kept(store, "data")

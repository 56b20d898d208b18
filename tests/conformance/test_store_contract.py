"""One contract, every store. Races run where the server behind the adapter is a real one."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import pytest

from shardrel.digest import Digest, digest_of
from shardrel.errors import ErrorCode, IntegrityError
from shardrel.store.layout import commit_key, gate_key, object_key, operation_key, run_key
from shardrel.store.objects import get, put
from shardrel.store.port import AlreadyPresent, Conflict, CreateOutcome, Looked, Lost, ObjectKey, Store, Token, Written
from shardrel.store.probe import THOROUGH, probe
from shardrel.store.promises import Effort
from tests.support.stores import make_store

# moto checks and then puts without a lock: it can show the protocol of single requests and no race.
CEPH = pytest.param("ceph", marks=pytest.mark.slow)
REAL = ("seaweed", "seaweed-versioned", "ministack", "ministack-versioned", CEPH)
EVERY = ("memory", "local", "moto", "moto-versioned", *REAL)
ATOMIC = ("memory", "local", *REAL)
VERSIONED = ("memory", "moto-versioned", "seaweed-versioned", "ministack-versioned")
LARGE = 8 << 20
RACERS = 4

T = TypeVar("T")


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return make_store(request.param, request, tmp_path)


every_store = pytest.mark.parametrize("store", EVERY, indirect=True)
atomic_store = pytest.mark.parametrize("store", ATOMIC, indirect=True)
versioned_store = pytest.mark.parametrize("store", VERSIONED, indirect=True)

STATE = gate_key("data")
RECORD = run_key("run-1")


def create(store: Store, key: ObjectKey, data: bytes) -> Written:
    outcome = store.create(key, data)
    assert isinstance(outcome, Written)
    return outcome


def swap(store: Store, key: ObjectKey, data: bytes, expected: Token | None) -> Written:
    outcome = store.swap(key, data, expected)
    assert isinstance(outcome, Written)
    return outcome


def bytes_at(store: Store, key: ObjectKey, version: str | None = None) -> bytes | None:
    stored = store.read(key, max_bytes=2 * LARGE, version=version)
    return None if stored is None else stored.data


@every_store
def test_create_writes_once_and_never_again(store: Store) -> None:
    first = create(store, RECORD, b"first")
    assert store.create(RECORD, b"first") == AlreadyPresent(first.version)
    assert store.create(RECORD, b"other") == Conflict()
    assert store.create(RECORD, b"") == Conflict()
    assert bytes_at(store, RECORD) == b"first"


@every_store
@pytest.mark.parametrize("data", [b"", b"\0", bytes(range(256)) * (LARGE // 256)], ids=["empty", "byte", "8 MiB"])
def test_bytes_come_back_as_they_were(store: Store, data: bytes) -> None:
    key = object_key(digest_of(data))
    written = create(store, key, data)
    stored = store.read(key, max_bytes=len(data), version=written.version)
    assert stored is not None
    assert (stored.data, stored.version, stored.token) == (data, written.version, written.token)
    assert isinstance(stored.data, bytes)
    assert store.create(key, memoryview(data)) == AlreadyPresent(written.version)


@every_store
def test_a_view_is_written_without_what_lies_around_it(store: Store) -> None:
    around = bytes(100) + b"inside" + bytes(100)
    assert isinstance(store.create(RECORD, memoryview(around)[100:106]), Written)
    assert bytes_at(store, RECORD) == b"inside"


@every_store
def test_large_objects_conflict_too(store: Store) -> None:
    create(store, RECORD, bytes(LARGE))
    assert store.create(RECORD, bytes(LARGE - 1) + b"\1") == Conflict()
    assert store.create(RECORD, bytes(LARGE - 1)) == Conflict()


@every_store
def test_an_absent_key_reads_as_none(store: Store) -> None:
    assert store.read(RECORD, max_bytes=10) is None
    assert store.read(STATE, max_bytes=0) is None


@every_store
@pytest.mark.parametrize("kind", ["version", "etag:0123", f"sha256:{'0' * 64}", "null"])
def test_a_version_of_no_object_reads_as_none(store: Store, kind: str) -> None:
    create(store, RECORD, b"here")
    assert store.read(RECORD, max_bytes=10, version=kind) is None


@every_store
def test_no_more_bytes_than_the_bound_are_read(store: Store) -> None:
    written = create(store, RECORD, b"12345")
    assert bytes_at(store, RECORD) == b"12345"
    for version in (None, written.version):
        with pytest.raises(IntegrityError) as refused:
            store.read(RECORD, max_bytes=4, version=version)
        assert refused.value.code is ErrorCode.STORAGE_TOO_LARGE


@every_store
@pytest.mark.parametrize("first", [0, 1, 4, 5, 6, 1 << 20])
def test_a_look_gives_size_version_and_the_first_bytes(store: Store, first: int) -> None:
    key = object_key(digest_of(b"12345"))
    written = create(store, key, b"12345")
    for version in (None, written.version):
        assert store.look(key, first=first, version=version) == Looked(5, written.version, b"12345"[:first])


@every_store
def test_a_look_at_bytes_that_are_many_or_none(store: Store) -> None:
    large = bytes(range(256)) * (LARGE // 256)
    for data in (large, b""):
        written = create(store, object_key(digest_of(data)), data)
        for first in (0, 300):
            looked = store.look(object_key(digest_of(data)), first=first)
            assert looked == Looked(len(data), written.version, data[:first])


@every_store
def test_a_look_at_what_is_absent_shows_nothing(store: Store) -> None:
    assert store.look(RECORD) is None
    create(store, RECORD, b"here")
    for kind in ("version", "etag:0123", f"sha256:{'0' * 64}", "null"):
        assert store.look(RECORD, first=1, version=kind) is None


@every_store
def test_a_look_never_shows_other_bytes_than_those_of_the_version(store: Store) -> None:
    first = swap(store, STATE, b"1", None)
    second = swap(store, STATE, b"22", first.token)
    assert store.look(STATE, first=9) == Looked(2, second.version, b"22")
    assert store.look(STATE, first=9, version=first.version) in (None, Looked(1, first.version, b"1"))
    store.delete(STATE, second.version)
    assert store.look(STATE, version=second.version) is None


@every_store
def test_swap_needs_the_token_of_the_bytes_that_stand(store: Store) -> None:
    first = swap(store, STATE, b"1", None)
    second = swap(store, STATE, b"2", first.token)
    assert store.swap(STATE, b"3", first.token) == Lost()
    assert store.swap(STATE, b"3", None) == Lost()
    stored = store.read(STATE, max_bytes=1)
    assert stored is not None
    assert (stored.data, stored.token) == (b"2", second.token)
    swap(store, STATE, b"3", stored.token)


@every_store
def test_swap_of_an_absent_key_with_a_token_makes_nothing(store: Store) -> None:
    token = create(store, RECORD, b"1").token
    assert store.swap(STATE, b"2", token) == Lost()
    assert bytes_at(store, STATE) is None


@every_store
def test_a_version_never_shows_other_bytes(store: Store) -> None:
    first = swap(store, STATE, b"1", None)
    second = swap(store, STATE, b"2", first.token)
    assert bytes_at(store, STATE, second.version) == b"2"
    assert bytes_at(store, STATE, first.version) in (b"1", None)


@versioned_store
def test_a_store_with_versions_keeps_the_old_ones(store: Store) -> None:
    first = swap(store, STATE, b"1", None)
    swap(store, STATE, b"2", first.token)
    assert bytes_at(store, STATE, first.version) == b"1"


@every_store
def test_keys_outside_the_layout_are_refused_before_anything_happens(store: Store) -> None:
    outside = ["../x", "/etc/passwd", "objects/../../x", "gates//state", "gates/a\0b/state", "gates/.x/state", "", "x"]
    for key in map(ObjectKey, outside):
        calls: list[Callable[[], object]] = [
            partial(store.create, key, b""),
            partial(store.read, key, max_bytes=1),
            partial(store.look, key),
            partial(store.swap, key, b"", None),
            partial(store.delete, key, "v"),
        ]
        for call in calls:
            with pytest.raises(IntegrityError) as refused:
                call()
            assert refused.value.code is ErrorCode.STORAGE_KEY
    for prefix in ("../", "/", "objects/../", "a//b", "gates/./"):
        with pytest.raises(IntegrityError):
            list(store.list(prefix))


@every_store
def test_list_shows_the_keys_below_a_prefix(store: Store) -> None:
    keys = [commit_key("run-1", number) for number in range(12)] + [run_key("run-1"), run_key("run-10")]
    for key in keys:
        create(store, key, b"x")
    assert sorted(store.list("runs/run-1/commits/")) == sorted(keys[:12])
    assert sorted(store.list("runs/run-1/commits/1")) == [commit_key("run-1", number) for number in (1, 10, 11)]
    assert sorted(store.list("runs/run-1")) == sorted(keys)
    assert list(store.list("gates/")) == []
    assert sorted(store.list("")) == sorted(keys)


@every_store
def test_delete_takes_exactly_one_version(store: Store) -> None:
    first = swap(store, STATE, b"1", None)
    second = swap(store, STATE, b"2", first.token)
    assert store.delete(STATE, first.version)
    assert bytes_at(store, STATE) == b"2"
    assert store.delete(STATE, second.version)
    assert store.delete(STATE, second.version)
    assert bytes_at(store, STATE) is None
    assert bytes_at(store, STATE, second.version) is None
    assert store.delete(RECORD, second.version)


@every_store
def test_a_deleted_key_can_be_created_again(store: Store) -> None:
    first = create(store, RECORD, b"1")
    store.delete(RECORD, first.version)
    create(store, RECORD, b"2")
    assert bytes_at(store, RECORD) == b"2"


@every_store
def test_objects_are_read_by_their_descriptor(store: Store) -> None:
    descriptor, before = put(store, b"an object", "text/plain")
    assert (descriptor.digest, before) == (Digest(digest_of(b"an object")), False)
    assert put(store, b"an object", "text/plain") == (descriptor, True)
    assert get(store, descriptor) == b"an object"


def race(write: Callable[[int], T]) -> list[T]:
    start = Barrier(RACERS)

    def run(racer: int) -> T:
        start.wait()
        return write(racer)

    with ThreadPoolExecutor(RACERS) as pool:
        return list(pool.map(run, range(RACERS)))


def create_as(store: Store, key: ObjectKey, racer: int) -> CreateOutcome:
    return store.create(key, b"racer %d" % racer)


@atomic_store
def test_one_of_racing_creators_wins(store: Store) -> None:
    for number in range(3):
        key = operation_key("data", f"race-{number}")
        outcomes = race(partial(create_as, store, key))
        winners = [racer for racer, outcome in enumerate(outcomes) if isinstance(outcome, Written)]
        assert len(winners) == 1
        assert outcomes.count(Conflict()) == RACERS - 1
        assert bytes_at(store, key) == b"racer %d" % winners[0]


@atomic_store
def test_racing_creators_of_the_same_bytes_all_succeed(store: Store) -> None:
    outcomes = race(lambda racer: store.create(RECORD, b"same"))
    assert sum(isinstance(outcome, Written) for outcome in outcomes) == 1
    assert len({outcome.version for outcome in outcomes if isinstance(outcome, Written | AlreadyPresent)}) == 1


@atomic_store
def test_no_increment_of_a_swapped_counter_is_lost(store: Store) -> None:
    increments = 3
    swap(store, STATE, b"0", None)

    def increment(racer: int) -> None:
        done = 0
        while done < increments:
            stored = store.read(STATE, max_bytes=10)
            assert stored is not None
            outcome = store.swap(STATE, b"%d" % (int(stored.data) + 1), stored.token)
            assert outcome == Lost() or isinstance(outcome, Written)
            done += isinstance(outcome, Written)

    race(increment)
    assert bytes_at(store, STATE) == b"%d" % (RACERS * increments)


@atomic_store
def test_the_probe_passes_and_leaves_nothing(store: Store) -> None:
    verdict = probe(store, Effort(racers=2, processes=1, rounds=1, listed=5))
    assert [check for check in verdict.checks if check.required and not check.ok] == []
    assert verdict.verdict == "PASSED"
    assert list(store.list("")) == []


@pytest.mark.slow
@pytest.mark.parametrize("store", ["memory", "local", "ministack", "ministack-versioned"], indirect=True)
def test_thirty_two_writers_in_four_processes_find_nothing(store: Store) -> None:
    """SeaweedFS lets the losers of a race wait for seconds: it is tried with fewer above."""
    verdict = probe(store, THOROUGH)
    assert [check for check in verdict.checks if not check.ok] == []

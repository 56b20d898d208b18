"""Parts that are read together: as if each were read alone."""

from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from shardrel.canonical import sha
from shardrel.canonical.sha import sha256_rows
from shardrel.errors import ErrorCode, UnavailableError
from shardrel.records.descriptor import PARQUET
from shardrel.records.snapshot import Part
from shardrel.store.layout import object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import put, unversioned
from verifier.parts import MAX_PART_BYTES, fetched_together
from verifier.structure import FlawError


@pytest.fixture(autouse=True, params=["one by one", "two at a time"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sha, "_LANES", sha._Lanes(1 if request.param == "two at a time" else 1 << 62))
    monkeypatch.setattr(sha, "_LONG", 0)
    sha256_rows(pa.array([b"one"]))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def a_part(store: MemoryStore, data: bytes) -> Part:
    descriptor, _ = put(store, data, PARQUET)
    return Part(object=unversioned(descriptor), records=1, last_sample_id="z")


def altered(store: MemoryStore, part: Part, data: bytes) -> None:
    """Other bytes where the part's are."""
    key = object_key(part.object.digest)
    twin = MemoryStore()
    twin.create(key, data)
    store._versions[key] = twin._versions[key]


def test_each_is_what_it_names(store: MemoryStore) -> None:
    first, second, third = (a_part(store, bytes([n]) * 1000 * n) for n in (1, 2, 3))
    fetch = fetched_together(store, first, second)
    for n, part in ((3, third), (2, second), (1, first), (1, first), (2, second)):
        assert fetch(part.object) == bytes([n]) * 1000 * n


def test_the_same_part_twice(store: MemoryStore) -> None:
    part = a_part(store, b"twice")
    fetch = fetched_together(store, part, part)
    assert [fetch(part.object), fetch(part.object)] == [b"twice", b"twice"]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"whole", ErrorCode.STORAGE_DIGEST),
        (b"par", ErrorCode.STORAGE_SIZE),
        (b"a longer part", ErrorCode.STORAGE_TOO_LARGE),
        (None, ErrorCode.STORAGE_ABSENT),
    ],
)
def test_what_is_wrong_with_one_is_said_when_it_is_asked_for(
    store: MemoryStore, which: int, data: bytes | None, code: ErrorCode
) -> None:
    parts = [a_part(store, b"parts"), a_part(store, b"other")]
    if data is None:
        del store._versions[object_key(parts[which].object.digest)]
    else:
        altered(store, parts[which], data)
    fetch = fetched_together(store, parts[0], parts[1])
    assert fetch(parts[1 - which].object) == (b"other" if which == 0 else b"parts")
    for _ in range(2):
        with pytest.raises(FlawError) as flaw:
            fetch(parts[which].object)
        assert flaw.value.code is code


def test_a_part_that_is_too_large_is_not_read(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    part = a_part(store, b"part")
    huge = replace(part, object=replace(part.object, digest="sha256:" + "0" * 64, size=MAX_PART_BYTES + 1))
    read: list[Any] = []
    monkeypatch.setattr(store, "read", lambda key, **how: read.append(key) or MemoryStore.read(store, key, **how))
    fetched_together(store, huge, part)
    assert read == [object_key(part.object.digest)]


def test_a_store_that_does_not_answer_is_no_flaw(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    part = a_part(store, b"part")

    def silent(*_: Any, **__: Any) -> None:
        raise UnavailableError(ErrorCode.STORE_UNAVAILABLE, "no answer")

    monkeypatch.setattr(store, "read", silent)
    with pytest.raises(UnavailableError):
        fetched_together(store, part, part)

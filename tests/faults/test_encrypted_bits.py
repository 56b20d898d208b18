"""Every single-bit flip and truncation of an encrypted shard, with all digests made to fit, is noticed.

That leaves the tags, the checksums and the structure alone to notice it. The short run takes every 11th.
"""

from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from shardrel.digest import digest_of
from shardrel.errors import ErrorCode
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import put
from shardrel.trust.key_encryption import Unlocked
from tests.support.encrypted import an_encrypted_release
from verifier.fences import benchmarks, tombstones
from verifier.shard import Scan, examine

STEP = 11


@pytest.fixture(scope="module")
def scan() -> Scan:
    built = an_encrypted_release()
    built.put_shard(
        0, built.encrypt_anew(0, built.shard_table(0).slice(0, 3)), **built.true_entry(built.shard_table(0).slice(0, 3))
    )
    nothing = {"tombstones": tombstones([], 0), "benchmarks": benchmarks([], 0)}
    return Scan(
        store=built.store, release=built.release, schema=built.schema, unlocked=Unlocked([built.key]), **nothing
    )


def codes_of(scan: Scan, data: bytes) -> set[ErrorCode]:
    """What is said of the first shard if these are its bytes."""
    shard = scan.release.shards[0]
    store = MemoryStore()
    version = put(store, data, shard.media_type)[0].object_version
    entry = changed(shard, digest=digest_of(data), size=len(data), object_version=version)
    return {spot.code for spot in examine(replace(scan, store=store), entry).spots}


def stored(scan: Scan) -> bytes:
    shard = scan.release.shards[0]
    found = scan.store.read(f"objects/sha256/{shard.digest[7:9]}/{shard.digest[7:]}", max_bytes=shard.size)  # type: ignore[arg-type]
    assert found is not None
    return found.data


@pytest.mark.parametrize("step", [STEP, pytest.param(1, marks=pytest.mark.slow)])
def test_every_flipped_bit_is_noticed(scan: Scan, step: int) -> None:
    data = stored(scan)
    assert codes_of(scan, data) == set()
    for bit in range(0, len(data) * 8, step):
        flipped = data[: bit // 8] + bytes([data[bit // 8] ^ (1 << bit % 8)]) + data[bit // 8 + 1 :]
        assert codes_of(scan, flipped), bit


@pytest.mark.parametrize("step", [STEP, pytest.param(1, marks=pytest.mark.slow)])
def test_every_truncation_is_noticed(scan: Scan, step: int) -> None:
    data = stored(scan)
    for length in range(1, len(data), step):
        assert codes_of(scan, data[:length]), length


def modules(data: bytes) -> list[tuple[int, int]]:
    """Where page headers and pages lie, in turn, up to the footer."""
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    at, found = 4, []
    while at < end:
        found.append((at, at + 4 + int.from_bytes(data[at : at + 4], "little")))
        at = found[-1][1]
    return found


@pytest.mark.parametrize("kind", [0, 1], ids=["headers", "pages"])
def test_modules_that_change_places_are_noticed(scan: Scan, kind: int) -> None:
    """Two page headers, or two pages, of one file, under one key and of one length: each is bound to its place."""
    data = bytearray(stored(scan))
    alike = modules(bytes(data))[kind::2]
    pairs = [(one, two) for one in alike for two in alike if one < two and one[1] - one[0] == two[1] - two[0]]
    assert pairs
    for (a, b), (c, d) in pairs:
        changed_places = bytearray(data)
        changed_places[a:b], changed_places[c:d] = data[c:d], data[a:b]
        assert codes_of(scan, bytes(changed_places)) == {ErrorCode.ENCRYPTION_AAD}

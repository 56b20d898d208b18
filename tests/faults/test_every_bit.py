"""Every single-bit flip and every truncation of every object of a tiny release is noticed.

Exhaustive in the long run (``-m slow``): the readers that the product has are asked for each object with
each damage. The short run takes every 61st bit and every 17th truncation, and shows for some of them
that the verification as a whole reports a finding and signs FAILED.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shardrel.errors import ShardrelError
from shardrel.gate import admit, runs
from shardrel.gate.approve import approve
from shardrel.gate.attestations import read_envelope
from shardrel.gate.call import Call
from shardrel.gate.run_records import record_of
from shardrel.gate.view import read_gate
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_by_digest
from shardrel.store.port import Store
from tests.support.publishing import NOW, Publishing, records_table, write_source
from tests.support.tampered_store import TamperedStore
from verifier.verify import World, verify_release


@dataclass(frozen=True)
class Tiny:
    """A tiny release that went the whole way: published, verified, approved, admitted, run."""

    store: MemoryStore
    publishing: Publishing
    root: str

    def verify(self, store: Store) -> str:
        """The verdict over some store."""
        world = World(signer=self.publishing.keys["verifier"], now=lambda: NOW, progress=lambda done, total: None)
        gate = read_gate(self.store, self.publishing.dataset)
        return verify_release(store, self.root, gate, world=world).report.verdict


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The release."""
    folder: Path = tmp_path_factory.mktemp("tiny")
    store = MemoryStore()
    publishing = Publishing(store=store)
    publishing.init()
    source = write_source(folder / "source.arrow", records_table(9))
    root = publishing.publish(publishing.snapshot(source), source).root
    made = Tiny(store, publishing, root)
    assert made.verify(store) == "PASSED"
    approve(store, read_gate(store, publishing.dataset), root, publishing.keys["approver"], NOW)
    call = Call(signers=[publishing.keys["admin"]], recorded_at=NOW, operation_id=None, pending=None)
    admit.admit(store, publishing.dataset, root, "prod", call)
    runs.start(store, publishing.dataset, "prod", call, run_id="run-1")
    return made


def damages(data: bytes, bit_step: int, cut_step: int) -> Iterator[bytes]:
    """Flipped bits, then truncations."""
    for bit in range(0, len(data) * 8, bit_step):
        yield data[: bit // 8] + bytes([data[bit // 8] ^ (1 << bit % 8)]) + data[bit // 8 + 1 :]
    for length in range(0, len(data), cut_step):
        yield data[:length]


def reader_of(tiny: Tiny, key: str) -> Callable[[Store], object]:
    """What the product reads this key with; it raises, or answers None for an envelope it does not believe."""
    dataset = tiny.publishing.dataset
    name = key.rpartition("/")[2]
    if key.startswith("objects/"):
        return lambda store: get_by_digest(store, "sha256:" + name)
    if key.startswith("attestations/"):
        return lambda store: read_envelope(store, tiny.root, "sha256:" + name)
    if key.startswith("runs/"):
        return lambda store: record_of(store, read_gate(tiny.store, dataset), "run-1")
    return lambda store: read_gate(store, dataset)


def noticed(read: Callable[[Store], object], store: Store) -> bool:
    """Whether a reader refuses what it is given."""
    try:
        return read(store) is None
    except ShardrelError:
        return True


def readable_keys(tiny: Tiny) -> list[str]:
    """Every key of the store, except operation intents: what those say is checked against the history."""
    return [key for key in sorted(tiny.store.list("")) if "/operations/" not in key]


def check(tiny: Tiny, bit_step: int, cut_step: int) -> int:
    """Number of damages; all of them are noticed."""
    count = 0
    for key in readable_keys(tiny):
        stored = tiny.store.read(key, max_bytes=1 << 30)  # type: ignore[arg-type]
        assert stored is not None
        read = reader_of(tiny, key)
        assert not noticed(read, tiny.store), f"{key} is refused as it is"
        tampered = TamperedStore(tiny.store, key, b"")
        for data in damages(stored.data, bit_step, cut_step):
            tampered.data = data
            assert noticed(read, tampered), f"damage to {key} goes unnoticed"
            count += 1
    return count


def test_damage_to_any_object_is_noticed(tiny: Tiny) -> None:
    assert check(tiny, 61, 17) > 1_000


@pytest.mark.slow
def test_each_bit_and_each_length_of_each_object_is_noticed(tiny: Tiny) -> None:
    count = check(tiny, 1, 1)
    print(f"{count} damages, all noticed")
    assert count > 100_000


def test_damage_to_what_a_verification_reads_fails_it(tiny: Tiny) -> None:
    for key in readable_keys(tiny):
        if not key.startswith("objects/") or not read_by_verification(tiny, key):
            continue
        stored = tiny.store.read(key, max_bytes=1 << 30)  # type: ignore[arg-type]
        assert stored is not None
        middle = len(stored.data) // 2
        flipped = stored.data[:middle] + bytes([stored.data[middle] ^ 1]) + stored.data[middle + 1 :]
        for data in (flipped, stored.data[:-1], b""):
            assert tiny.verify(TamperedStore(tiny.store, key, data)) == "FAILED", key


def read_by_verification(tiny: Tiny, key: str) -> bool:
    """Whether a verification reads this key at all (it does not read the envelopes of transitions, say)."""
    asked: set[str] = set()

    class Asked(TamperedStore):
        def read(self, key: str, **bounds: object) -> object:  # type: ignore[override]
            asked.add(key)
            return super().read(key, **bounds)  # type: ignore[arg-type]

    tiny.verify(Asked(tiny.store, "none", b""))
    return key in asked

"""Every permit from its opening on, and what closed it."""

from shardrel.gate import runs
from shardrel.gate.admit import admit
from shardrel.gate.fence import advance
from shardrel.gate.log import read_entries
from shardrel.gate.permit_lives import permit_lives
from shardrel.gate.revoke import revoke
from shardrel.records.fence import TombstoneEntry
from shardrel.store.memory import MemoryStore
from tests.support import gates
from tests.support.gates import DATASET

ROOT = gates.a_root("one")
ENTRY = TombstoneEntry(
    sequence=1, sample_id="gone", source_id=None, source_version=None, content_digest=None, reason=None
)


def a_gate() -> MemoryStore:
    """A gate whose alias points to a root."""
    store = MemoryStore()
    gates.new_gate(store)
    gates.stage(store, ROOT)
    gates.attest(store, ROOT)
    admit(store, DATASET, ROOT, "prod", gates.call())
    return store


def closings(store: MemoryStore) -> list[tuple[str, str, str | None, int | None]]:
    """Holder, what closed its permit, and the fence's watermark, of every permit."""
    lives = permit_lives(read_entries(store, DATASET))
    return [
        (life.kind, life.subject, life.closing and life.closing.by, life.closing and life.closing.watermark)
        for life in lives
    ]


def test_a_fence_closes_every_permit_and_says_where_it_stands() -> None:
    store = a_gate()
    runs.start(store, DATASET, "prod", gates.call(), run_id="one")
    advance(store, DATASET, "tombstones", [ENTRY], gates.call())
    assert closings(store) == [("publication", "prod", "tombstones", 1), ("run", "one", "tombstones", 1)]
    last = permit_lives(read_entries(store, DATASET))[-1].closing
    assert last is not None
    assert last.sequence == len(read_entries(store, DATASET))


def test_moves_ends_and_revocations_close_what_they_are_about() -> None:
    store = a_gate()
    admit(store, DATASET, ROOT, "prod", gates.call())
    runs.start(store, DATASET, "prod", gates.call(), run_id="one")
    runs.finish(store, DATASET, "one", gates.call())
    runs.start(store, DATASET, "prod", gates.call(), run_id="two")
    assert closings(store)[-1] == ("run", "two", None, None)
    revoke(store, DATASET, ROOT, "test.reason", gates.call())
    assert closings(store) == [
        ("publication", "prod", "move", None),
        ("publication", "prod", "revoke", None),
        ("run", "one", "end", None),
        ("run", "two", "revoke", None),
    ]


def test_the_log_names_the_keys_that_signed() -> None:
    store = a_gate()
    entries = read_entries(store, DATASET)
    assert {entry.role: entry.signers for entry in entries}["releaser"] == ("admin",)
    assert all(entry.signers for entry in entries)

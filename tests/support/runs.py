"""A run in a gate: admitted for real, with attestations signed by test keys."""

from shardrel.gate import admit, fence, runs
from shardrel.gate.view import read_gate
from shardrel.records.fence import TombstoneEntry
from shardrel.store.port import Store
from tests.support.gates import DATASET, a_report, attach_report, attest, call, new_gate, stage


def started_run(store: Store, root: str, run: str, alias: str = "prod") -> None:
    """A gate, a verified and approved root, an alias on it, and a run of it."""
    new_gate(store)
    admit_root(store, root, alias)
    runs.start(store, DATASET, alias, call(), run_id=run)


def admit_root(store: Store, root: str, alias: str = "prod") -> None:
    """Point an alias to a root, with all that the gate asks for."""
    stage(store, root)
    attest(store, root)
    admit.admit(store, DATASET, root, alias, call())


def renew_run(store: Store, run: str) -> None:
    """Report no hit at the fences of now, and open a new permit."""
    body = read_gate(store, DATASET).body
    attach_report(store, a_report(body, body.runs[run].root))
    runs.renew(store, DATASET, run, call())


def a_deletion(sequence: int) -> TombstoneEntry:
    """A tombstone of a sample that no release has."""
    return TombstoneEntry(
        sequence=sequence,
        sample_id=f"gone-{sequence}",
        source_id=None,
        source_version=None,
        content_digest=None,
        reason=None,
    )


def advance_tombstones(store: Store, sequence: int) -> None:
    """Take one deletion, which closes every permit."""
    fence.advance(store, DATASET, "tombstones", [a_deletion(sequence)], call())

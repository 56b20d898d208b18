"""A run in a gate: admitted for real, with attestations signed by test keys."""

from shardrel.gate import admit, runs
from shardrel.gate.call import perform
from shardrel.gate.facts import Evidence, LogFacts
from shardrel.gate.view import read_gate
from shardrel.records.fence import TombstoneChunk, TombstoneEntry
from shardrel.records.transition import AdvanceFence
from shardrel.store.objects import put_record, unversioned
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


def advance_tombstones(store: Store, sequence: int) -> None:
    """Take one deletion, which closes every permit."""
    fence = read_gate(store, DATASET).body.tombstones
    entry = TombstoneEntry(
        sequence=sequence,
        sample_id=f"gone-{sequence}",
        source_id=None,
        source_version=None,
        content_digest=None,
        reason=None,
    )
    chunk = TombstoneChunk(kind="tombstones", previous=fence.log, entries=(entry,))
    log = unversioned(put_record(store, chunk))
    request = AdvanceFence(fence="tombstones", first=sequence, last=sequence, previous=fence.log, log=log)
    facts = LogFacts(previous=fence.log, log=log, first=sequence, last=sequence)
    perform(store, DATASET, request, call(), lambda _: Evidence(signers=frozenset(), log=facts))

"""The transactions whose system calls are recorded, in the order in which a dataset sees them.

Each is what a verb or a job does, by the functions that it calls, and what somebody does who runs it again.
"""

from collections.abc import Callable
from dataclasses import dataclass

from shardrel.digest import digest_of
from shardrel.gate import admit, approve, fence, revoke, runs
from shardrel.gate.attestations import attach
from shardrel.gate.init import init
from shardrel.gate.publication import begin_publication, end_publication
from shardrel.gate.view import read_gate
from shardrel.lab.power.home import ALIAS, DATASET, NOW, Home
from shardrel.records.fence import TombstoneEntry
from shardrel.records.report import REPORT_PREDICATE, STATEMENT_PAYLOAD, Counts, LogRange, Report
from shardrel.trust import keyring
from shardrel.trust.envelope import seal
from shardrel.trust.policy import default_policy
from shardrel.trust.statement import statement

SNAPSHOT, RELEASE = digest_of(b"a snapshot"), digest_of(b"a root manifest")
"""The gate reads neither of them."""

Act = Callable[[Home], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Something that is done once, and again after a loss of power.

    Attributes:
        before: Done first; it is certainly on the disk when the transaction begins.
    """

    name: str
    act: Act
    before: Act = lambda home: None


def the_run(home: Home) -> str:
    """The one run, open or not."""
    return next(key.split("/")[1] for key in home.store.list("runs/"))


def _init(home: Home) -> None:
    public = keyring.ensure(home.keys)
    init(home.store, DATASET, default_policy(public), home.call())


def _staged(home: Home) -> None:
    publisher = home.call(keyring.PUBLISHER)
    begin_publication(home.store, DATASET, "first", SNAPSHOT, publisher)
    end_publication(home.store, DATASET, "first", RELEASE, publisher)
    _verified(home)
    approve.approve(home.store, read_gate(home.store, DATASET), RELEASE, home.key(keyring.APPROVER), NOW)


def _verified(home: Home) -> None:
    """What a verifier says at the gate's fences of now, whatever is in the release."""
    body = read_gate(home.store, DATASET).body
    taken = body.tombstones
    logs = LogRange(
        first=min(1, taken.watermark),
        last=taken.watermark,
        log=None if taken.log is None else taken.log.digest,
        after=None,
    )
    report = Report(
        kind="full", root=RELEASE, dataset=DATASET, gate_id=body.gate_id, gate_sequence=body.sequence,
        verdict="PASSED", tombstones=logs, benchmarks=LogRange(first=0, last=0, log=None, after=None),
        counts=Counts(), findings=(), findings_total=0, shards=1, records=1, checks=(), verifier="power-loss",
        started_on=NOW, finished_on=NOW,
    )  # fmt: skip
    payload = statement(RELEASE, REPORT_PREDICATE, report, DATASET)
    attach(home.store, RELEASE, seal(payload, STATEMENT_PAYLOAD, [home.key(keyring.VERIFIER)]))


def _saved(step: int) -> Act:
    def act(home: Home) -> None:
        from shardrel.lab.power.saving import save_unless_there  # with torch, which no other transaction needs

        save_unless_there(home, the_run(home), RELEASE, step)

    return act


def _fenced(home: Home) -> None:
    entry = TombstoneEntry(
        sequence=1, sample_id="gone", source_id=None, source_version=None, content_digest=None, reason=None
    )
    fence.advance(home.store, DATASET, "tombstones", [entry], home.call())


STORY = (
    Transaction(name="init", act=_init),
    Transaction(
        name="admit",
        act=lambda home: admit.admit(home.store, DATASET, RELEASE, ALIAS, home.call(), expect_generation=0),
        before=_staged,
    ),
    Transaction(name="run-start", act=lambda home: runs.start(home.store, DATASET, ALIAS, home.call())),
    Transaction(name="checkpoint", act=_saved(1)),
    Transaction(name="checkpoint-next", act=_saved(2)),
    Transaction(name="fence", act=_fenced),
    Transaction(
        name="run-renew",
        act=lambda home: runs.renew(home.store, DATASET, the_run(home), home.call()),
        before=_verified,
    ),
    Transaction(name="checkpoint-renewed", act=_saved(3)),
    Transaction(name="run-finish", act=lambda home: runs.finish(home.store, DATASET, the_run(home), home.call())),
    Transaction(
        name="revoke",
        act=lambda home: revoke.revoke(home.store, DATASET, RELEASE, "drill.power-loss", home.call()),
    ),
)


def named(name: str) -> Transaction:
    """The transaction of this name."""
    return next(one for one in STORY if one.name == name)

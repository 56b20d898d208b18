"""A scratch store with keys of its own, and datasets on it that drills may ruin."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from shardrel.canonical import json
from shardrel.drills.drill import NOTHING, Codes, refusal
from shardrel.drills.forge import Forgery
from shardrel.drills.tools import Tools
from shardrel.gate import admit, approve, fence, rollback, runs
from shardrel.gate.admit import Moved
from shardrel.gate.attestations import attach
from shardrel.gate.call import Call
from shardrel.gate.init import init
from shardrel.gate.publication import begin_publication, end_publication
from shardrel.gate.view import GateView, read_gate
from shardrel.records.fence import TombstoneEntry
from shardrel.records.policy import Policy
from shardrel.records.release import Release
from shardrel.records.report import REPORT_PREDICATE, STATEMENT_PAYLOAD, Report
from shardrel.store.objects import get_by_digest
from shardrel.store.port import Store
from shardrel.trust.envelope import seal
from shardrel.trust.key_encryption import KeyEncryption, Unlocked
from shardrel.trust.keyring import DEFAULT_NAMES
from shardrel.trust.keys import SigningKey, generate
from shardrel.trust.policy import default_policy
from shardrel.trust.statement import statement

# So many fall evenly into the two shards: one can then pass for the other by its number of records.
RECORDS = 44
SHARDS = 2
ALIAS = "prod"
# Keys beside those of the default policy: a second verifier, and somebody whom no policy knows.
SECOND, STRANGER = "second-verifier", "stranger"
# Most entries that one advance may take here, so that a fast-forward needs few.
FENCE_STEP = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """Where drills take place.

    Attributes:
        store: Fresh; no dataset but those of drills is on it.
        folder: Fresh; for source files and caches.
        keys: By name, made for these drills and never saved.
        tools: The other two programs.
        now: The time as RFC 3339 in UTC.
    """

    store: Store
    folder: Path
    keys: Mapping[str, SigningKey]
    tools: Tools
    now: Callable[[], str]

    def scene(self, dataset: str, *, policy: Policy | None = None, encrypt: KeyEncryption | None = None) -> "Scene":
        """A fresh dataset with its gate; nothing is published yet.

        Effects: creates the gate.
        """
        rules = policy or scratch_policy(self.keys)
        made = Scene(scratch=self, store=self.store, dataset=dataset, encrypt=encrypt)
        init(self.store, dataset, rules, made.call("admin"))
        return made

    def released(self, dataset: str, *, encrypt: KeyEncryption | None = None) -> "tuple[Scene, str]":
        """A fresh dataset whose alias points to a verified and approved root, encrypted where there is a key."""
        scene = self.scene(dataset, encrypt=encrypt)
        root = scene.publish(records_table(RECORDS))
        scene.vouch_for(root)
        scene.admit(root)
        return scene, root


def scratch_keys() -> dict[str, SigningKey]:
    """New keys for every role, one more verifier, and a stranger."""
    return {name: generate(name) for name in (*DEFAULT_NAMES, SECOND, STRANGER)}


def scratch_policy(keys: Mapping[str, SigningKey]) -> Policy:
    """The default policy over these keys, with a small bound on a fence's step."""
    rules = default_policy({name: keys[name].public for name in DEFAULT_NAMES})
    return msgspec.structs.replace(rules, max_fence_step=FENCE_STEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One dataset on a scratch store, and what its people do.

    Attributes:
        encrypt: Key that shards are encrypted with, and read with.
    """

    scratch: Scratch
    store: Store
    dataset: str
    encrypt: KeyEncryption | None = None

    def behind(self, store: Store) -> "Scene":
        """The same dataset, seen through another store such as a faulty one."""
        return replace(self, store=store)

    def key(self, name: str) -> SigningKey:
        """The key of this name."""
        return self.scratch.keys[name]

    def call(self, *names: str, operation_id: str | None = None) -> Call:
        """A call signed by these keys."""
        signers = [self.key(name) for name in names]
        return Call(signers=signers, recorded_at=self.scratch.now(), operation_id=operation_id, pending=None)

    def view(self) -> GateView:
        """The gate as it is."""
        return read_gate(self.store, self.dataset)

    def release(self, root: str) -> Release:
        """A root manifest."""
        return json.decode(get_by_digest(self.store, root), Release)

    def forgery(self, root: str) -> Forgery:
        """A root manifest to be changed."""
        return Forgery(self.store, self.release(root))

    def publish(self, table: Any, *, shards: int = SHARDS) -> str:
        """Declare and publish a table; its root is STAGED then."""
        path = self.scratch.folder / f"{self.dataset}-{table.num_rows}.arrow"
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
        tools, sources = self.scratch.tools, [str(path)]
        snapshot = tools.declare(self.store, self.dataset, sources)
        return tools.publish(self.store, snapshot, sources, shards, self.key("publisher"), self.encrypt)

    def stage(self, root: str, by: str = "publisher") -> None:
        """Make a root a candidate, as its publisher would."""
        name = "drill-" + root[-12:]
        snapshot = self.release(root).dataset_snapshot
        begin_publication(self.store, self.dataset, name, snapshot, self.call(by))
        end_publication(self.store, self.dataset, name, root, self.call(by))

    def verify(self, root: str, by: str = "verifier") -> Report:
        """Verify a root at the gate's fences of now."""
        unlocked = Unlocked([] if self.encrypt is None else [self.encrypt])
        return self.scratch.tools.verify(self.store, root, self.view(), self.key(by), unlocked)

    def approve(self, root: str) -> None:
        """Say yes to a root."""
        approve.approve(self.store, self.view(), root, self.key("approver"), self.scratch.now())

    def vouch_for(self, root: str) -> None:
        """Verify and approve."""
        self.verify(root)
        self.approve(root)

    def attest(self, report: Report, by: str) -> None:
        """Sign a report and attach it, whatever it says."""
        payload = statement(report.root, REPORT_PREDICATE, report, report.dataset)
        attach(self.store, report.root, seal(payload, STATEMENT_PAYLOAD, [self.key(by)]))

    def admit(self, root: str, *, expect: int | None = None, operation_id: str | None = None) -> Moved:
        """Point the alias to a root."""
        call = self.call("admin", operation_id=operation_id)
        return admit.admit(self.store, self.dataset, root, ALIAS, call, expect_generation=expect)

    def roll_back(self, root: str) -> Moved:
        """Point the alias to an older root."""
        return rollback.rollback(self.store, self.dataset, root, ALIAS, self.call("admin"))

    def start_run(self, run: str) -> runs.RunView:
        """Start a run on what the alias points to."""
        return runs.start(self.store, self.dataset, ALIAS, self.call("admin"), run_id=run)

    def delete_one(self) -> None:
        """Advance the fence of tombstones by its first entry, which names no record of this dataset."""
        fence.advance(self.store, self.dataset, "tombstones", deletions(1), self.call("admin"))

    def seal(self, forgery: Forgery) -> str:
        """Store a forged manifest with a publisher's word for it, as somebody who stole that key would.

        Returns:
            The forged root, which is a candidate then.
        """
        root = forgery.put_root()
        release = forgery.release
        key = self.key("publisher")
        attach(self.store, root, self.scratch.tools.vouch(root, self.dataset, release.dataset_snapshot, key))
        self.stage(root)
        return root

    def judged(self, root: str) -> Codes:
        """What verification finds in a staged root that is approved all the same; nothing if it can be admitted."""
        report = self.verify(root)
        self.approve(root)
        refused = refusal(lambda: self.admit(root))
        return [NOTHING] if refused == NOTHING else sorted({finding.code for finding in report.findings})


def records_table(count: int, *, first: int = 0) -> Any:
    """Records of two splits and two sources: a text, a number, a list of tokens."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": [f"record-{n:05d}" for n in numbers],
            "source": [f"source-{n % 2}" for n in numbers],
            "version": [str(n % 3) for n in numbers],
            "split": ["test" if n % 5 == 0 else "train" for n in numbers],
            "text": [f"the text of record {n}" for n in numbers],
            "score": [n / 8 for n in numbers],
            "tokens": pa.array([[n % 7] * (n % 4) for n in numbers], pa.list_(pa.uint16())),
        }
    )


def deletions(count: int) -> list[TombstoneEntry]:
    """The first entries of a log of tombstones, of samples that no release has."""
    return [
        TombstoneEntry(
            sequence=sequence, sample_id=f"gone-{sequence}", source_id=None, source_version=None,
            content_digest=None, reason=None,
        )
        for sequence in range(1, count + 1)
    ]  # fmt: skip

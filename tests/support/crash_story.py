"""The story whose every step is killed everywhere: one release, from declaring it to revoking it."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

# The driver forks children that use these; the parent only has them loaded.
import publisher.publish
import publisher.snapshot  # noqa: F401
import verifier.recheck
import verifier.verify  # noqa: F401
from shardrel.canonical import json as canonical
from shardrel.gate.evidence import gather
from shardrel.gate.log import LogEntry, read_entries
from shardrel.gate.view import read_gate
from shardrel.records.release import Release
from shardrel.store.layout import gate_key
from shardrel.store.local import LocalStore
from shardrel.store.objects import get_by_digest

DATASET = "texts"
STORE = "./.shardrel/store"
PENDING = Path(".shardrel") / "keys" / "operations"
Said = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command of the story.

    Attributes:
        line: Makes the command line from what the steps before have printed; ``job`` and an action of ``crash_job``
            for what no command does.
        status: Its exit status.
        crashes: Whether its points are tried.
        prepare: Changes the folder before.
    """

    name: str
    line: Callable[[Said], list[str]]
    status: int = 0
    crashes: bool = True
    prepare: Callable[[Path, Said], None] = lambda folder, said: None

    def uncrashed(self) -> "Step":
        """The same step, only gone through."""
        return replace(self, crashes=False)


def _root(said: Said) -> str:
    return str(said["publish"]["root"])


def _publish(said: Said) -> list[str]:
    snapshot = str(said["snapshot"]["snapshot"])
    return ["publish", snapshot, "--source", "texts.jsonl", "--shards", "2", "--workers", "1"]


def _write_policy(folder: Path, said: Said) -> None:
    """The policy that holds, with a longer window."""
    policy = {**said["policy-show"]["policy"], "rollbackWindow": 5}
    (folder / "policy.json").write_text(json.dumps(policy))


def _damage(folder: Path, said: Said) -> None:
    """Flip a bit of a shard, as a disk would."""
    store = LocalStore(folder / STORE)
    release = canonical.decode(get_by_digest(store, _root(said)), Release)
    digits = release.shards[0].digest.removeprefix("sha256:")
    path = folder / STORE / "objects" / "sha256" / digits[:2] / digits
    data, mode = bytearray(path.read_bytes()), path.stat().st_mode
    data[len(data) // 2] ^= 1
    path.unlink()
    path.write_bytes(data)
    path.chmod(mode)


STORY = (
    Step(name="init", line=lambda said: ["init"], crashes=False),
    Step(name="snapshot", line=lambda said: ["snapshot", "texts.jsonl", "--id-column", "id", "--workers", "1"]),
    Step(name="publish", line=_publish),
    Step(name="verify", line=lambda said: ["verify", _root(said), "--workers", "1"]),
    Step(name="approve", line=lambda said: ["approve", _root(said)]),
    Step(name="admit", line=lambda said: ["admit", _root(said), "--alias", "prod", "--expect-generation", "0"]),
    Step(name="run-start", line=lambda said: ["run", "start", "--alias", "prod", "--run-id", "first"]),
    Step(name="run-start-unnamed", line=lambda said: ["run", "start", "--alias", "prod"]),
    Step(name="fence-tombstones", line=lambda said: ["fence", "tombstones", "tombstones.jsonl"]),
    Step(name="verify-fences-only", line=lambda said: ["verify", _root(said), "--fences-only", "--workers", "1"]),
    Step(name="run-renew", line=lambda said: ["run", "renew", "first"]),
    Step(name="checkpoint", line=lambda said: ["job", "checkpoint", "first"]),
    Step(name="policy-show", line=lambda said: ["policy", "show"], crashes=False),
    Step(name="policy-set", line=lambda said: ["policy", "set", "policy.json"], prepare=_write_policy),
    Step(name="fence-stage", line=lambda said: ["fence", "benchmarks", "benchmarks.jsonl", "--stage"]),
    Step(name="fence-advance-staged", line=lambda said: ["fence", "benchmarks", "--advance-staged"]),
    Step(
        name="verify-again",
        line=lambda said: ["verify", _root(said), "--fences-only", "--workers", "1"],
        crashes=False,
    ),
    Step(name="run-renew-again", line=lambda said: ["run", "renew", "first"]),
    Step(name="rollback", line=lambda said: ["rollback", "--alias", "prod", "--to", _root(said)]),
    Step(name="run-finish", line=lambda said: ["run", "finish", "first"]),
    Step(name="run-cancel", line=lambda said: ["run", "cancel", str(said["run-start-unnamed"]["runId"])]),
    Step(name="verify-failed", line=lambda said: ["verify", _root(said), "--workers", "1"], status=1, prepare=_damage),
    Step(name="revoke", line=lambda said: ["revoke", _root(said), "--reason", "tests.story"]),
    Step(
        name="snapshot-unpublished",
        line=lambda said: ["snapshot", "others.jsonl", "--id-column", "id", "--workers", "1"],
        crashes=False,
    ),
    Step(name="gc-sees", line=lambda said: ["gc", "--keep-generations", "0"]),
    Step(name="gc-deletes", line=lambda said: ["gc", "--keep-generations", "0"]),
    Step(name="publication-dies", line=lambda said: ["job", "dead-publisher", "dead"], crashes=False),
    Step(name="gc-abandons", line=lambda said: ["gc", "--keep-generations", "0", "--abandon", "dead"]),
)


def write_inputs(folder: Path) -> None:
    """The sources and the entries of both logs; none of them names a record."""
    lines = [json.dumps({"id": f"t{number}", "text": f"text number {number}"}) for number in range(40)]
    (folder / "texts.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "others.jsonl").write_text('{"id": "a", "other": 1}\n')
    (folder / "tombstones.jsonl").write_text('{"sequence": 1, "sampleId": "gone", "reason": "owner.request"}\n')
    (folder / "benchmarks.jsonl").write_text('{"sequence": 1, "benchmark": "b", "text": "not in any record at all"}\n')


def end_state(folder: Path) -> dict[str, Any]:
    """What a step has come to, without what chance decides: operation ids, times, names that follow from them.

    Reading the log checks every link and signature of the history.
    """
    store = LocalStore(folder / ".shardrel" / "store")
    if store.read(gate_key(DATASET), max_bytes=1 << 26) is None:
        return {}
    view = read_gate(store, DATASET)
    entries = read_entries(store, DATASET)
    operations = [entry.operation_id for entry in entries]
    known = {root: gather(store, root, view.policy) for root in view.body.candidates}
    return {
        "body": _plain(canonical.encode(view.body).decode(), view.body.permits),
        "history": _effects(entries),
        "operationsAreDistinct": len(set(operations)) == len(operations),
        "approvals": {root: len(seen.approvals) for root, seen in known.items()},
        "provenances": {root: len(seen.provenance) for root, seen in known.items()},
        "reported": {root: _reported(seen.reports) for root, seen in known.items()},
        "runRecords": sorted(_unnamed(key) for key in store.list("runs/")),
        "pending": sorted(path.name[:8] for path in (folder / PENDING).glob("*")),
    }


def _effects(entries: list[LogEntry]) -> list[str]:
    """Kinds of the transitions. A publication that is made again pins and stages once more, which changes nothing."""
    seen: set[tuple[str, str]] = set()
    kinds = []
    for entry in entries:
        publication = getattr(entry.request, "publication", None)
        if publication is None or (entry.kind, publication) not in seen:
            kinds.append(entry.kind)
        if publication is not None:
            seen.add((entry.kind, publication))
    return kinds


def _reported(reports: Any) -> list[Any]:
    """What was reported, however often: a verification that is run again signs again."""
    return sorted({(seen.report.kind, seen.report.verdict, seen.report.tombstones.last) for seen in reports})


def _plain(text: str, permits: Any) -> Any:
    for name, permit in permits.items():
        text = text.replace(name, f"{permit.kind}-{permit.subject}")
    body = json.loads(_unnamed(text))
    del body["sequence"]
    for run in body["runs"].values():
        if run["head"] is not None:
            # An attempt has a name of its own.
            run["head"]["commit"] = "a commit"
    return body


def _unnamed(text: str) -> str:
    return re.sub(r"run-[0-9a-f]{16}", "run-unnamed", text)

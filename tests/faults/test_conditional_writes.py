"""Every conditional write of the product, stopped before and after it took effect, in every verb that makes it.

Afterwards nothing was cleaned up, and a plain re-run of the verb reaches the end that it would have reached.
"""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from msgspec.structs import replace

from shardrel.canonical import json
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.drills.recording_store import RecordingStore
from shardrel.errors import OutcomeUnknownError, RunFailedError, ShardrelError, UnavailableError
from shardrel.gate import fence, publication, runs
from shardrel.gate.admit import admit
from shardrel.gate.approve import approve
from shardrel.gate.call import Call
from shardrel.gate.init import init
from shardrel.gate.policy import set_policy
from shardrel.gate.revoke import revoke
from shardrel.gate.rollback import rollback
from shardrel.gate.view import find_gate, read_gate
from shardrel.records.release import Release
from shardrel.store.layout import object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Store
from shardrel.store.probe import ProbeVerdict
from shardrel.store.verdicts import keep, kept
from tests.support import gates
from tests.support.checkpoints import ROOT, RUN, cut, save_on
from tests.support.encrypted import a_key, publish_with
from tests.support.gates import DATASET, a_root, attest, new_gate
from tests.support.publishing import NOW, Publishing, new_keys, records_table, write_source
from tests.support.runs import a_deletion, admit_root, advance_tombstones, started_run

SOURCE = Path(__file__).resolve().parents[2]
BEFORE = (Fault.UNKNOWN_BEFORE, Fault.FAIL_BEFORE)
AFTER = (Fault.UNKNOWN_AFTER, Fault.FAIL_AFTER)
OTHER = a_root("another")
KEYS = new_keys()
KEY_ENCRYPTION = a_key()


class World:
    """One verb's surroundings: where it keeps the ids of operations, and a file with records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def call(self) -> Call:
        return Call(signers=[gates.key("admin")], recorded_at=NOW, operation_id=None, pending=self.folder / "pending")

    @property
    def source(self) -> Path:
        path = self.folder / "source.arrow"
        return path if path.exists() else write_source(path, records_table(20))


def gate(store: Store) -> None:
    new_gate(store)


def staged(store: Store) -> None:
    new_gate(store)
    gates.stage(store, ROOT)


def eligible(store: Store) -> None:
    staged(store)
    attest(store, ROOT)


def admitted(store: Store) -> None:
    new_gate(store)
    admit_root(store, ROOT)


def admitted_twice(store: Store) -> None:
    admitted(store)
    admit_root(store, OTHER)


def running(store: Store) -> None:
    started_run(store, ROOT, RUN)


def closed(store: Store) -> None:
    running(store)
    advance_tombstones(store, 1)
    body = read_gate(store, DATASET).body
    gates.attach_report(store, gates.a_report(body, ROOT))


def publishing(store: Store) -> None:
    Publishing(store=store, keys=KEYS).init()


def nothing(store: Store) -> None:
    """A store that nobody has written to."""


def publish(store: Store, world: World) -> None:
    at = Publishing(store=store, keys=KEYS)
    at.publish(at.snapshot(world.source), world.source)


def declared(store: Store) -> None:
    publishing(store)
    with TemporaryDirectory() as folder:
        Publishing(store=store, keys=KEYS).snapshot(World(Path(folder)).source)


def publish_encrypted(store: Store, world: World) -> None:
    at = Publishing(store=store, keys=KEYS)
    publish_with(at, at.snapshot(world.source), world.source, KEY_ENCRYPTION)


def save(store: Store, world: World) -> None:
    for result in save_on(store, 4):
        if isinstance(result, BaseException):
            raise result


def pinned(store: Store) -> None:
    new_gate(store)
    publication.begin_publication(store, DATASET, "pub", gates.SNAPSHOT, gates.call("publisher"))


def new_policy(store: Store, world: World) -> None:
    set_policy(store, DATASET, replace(gates.a_policy(), rollback_window=9), world.call)


VERBS: dict[str, tuple[Callable[[Store], None], Callable[[Store, World], Any]]] = {
    "init": (nothing, lambda s, w: init(s, DATASET, gates.a_policy(), w.call)),
    "probe": (nothing, lambda s, w: keep(s, DATASET, ProbeVerdict(checks=(), quoted_tokens=True), NOW)),
    "snapshot and publish": (publishing, publish),
    "publish --encrypt": (declared, publish_encrypted),
    "begin-publication": (gate, lambda s, w: publication.begin_publication(s, DATASET, "pub", gates.SNAPSHOT, w.call)),
    "end-publication": (pinned, lambda s, w: publication.end_publication(s, DATASET, "pub", ROOT, w.call)),
    "verify": (staged, lambda s, w: gates.attach_report(s, gates.a_report(read_gate(s, DATASET).body, ROOT))),
    "approve": (staged, lambda s, w: approve(s, read_gate(s, DATASET), ROOT, gates.key("approver"), NOW)),
    "admit": (eligible, lambda s, w: admit(s, DATASET, ROOT, "prod", w.call)),
    "rollback": (admitted_twice, lambda s, w: rollback(s, DATASET, ROOT, "prod", w.call)),
    "fence": (admitted, lambda s, w: fence.advance(s, DATASET, "tombstones", [a_deletion(1)], w.call)),
    "fence --stage": (admitted, lambda s, w: fence.stage(s, DATASET, "tombstones", [a_deletion(1)], w.call)),
    "revoke": (admitted, lambda s, w: revoke(s, DATASET, ROOT, "a.reason", w.call)),
    "policy set": (gate, new_policy),
    "run start": (admitted, lambda s, w: runs.start(s, DATASET, "prod", w.call, run_id=RUN)),
    "run renew": (closed, lambda s, w: runs.renew(s, DATASET, RUN, w.call)),
    "run finish": (running, lambda s, w: runs.finish(s, DATASET, RUN, w.call)),
    "checkpoint": (running, save),
}
CLASSES = {
    "objects": "objects/…",
    "attestations": "attestations/…",
    "operations": "gates/<dataset>/operations/<id>",
    "state": "gates/<dataset>/state",
    "probe": "gates/<dataset>/probe",
    "record": "runs/<run>/record",
    "commits": "runs/<run>/commits/<generation>",
    "keys": "keys/…",
}


def class_of(key: str) -> str:
    """The row of the SPEC's table that a key belongs to."""
    parts = key.split("/")
    return CLASSES[parts[0] if parts[0] in CLASSES else parts[2]]


def copy_of(store: MemoryStore) -> MemoryStore:
    copied = MemoryStore()
    copied._versions = {key: list(kept) for key, kept in store._versions.items()}
    copied._minted = store._minted
    return copied


def writes_of(verb: str, folder: Path) -> tuple[MemoryStore, list[tuple[str, str]], MemoryStore]:
    """The store before the verb, the conditional writes that it makes in order, and the store after it."""
    prepare, act = VERBS[verb]
    before = MemoryStore()
    prepare(before)
    after = copy_of(before)
    recording = RecordingStore(after)
    act(recording, World(folder))
    return before, [request for request in recording.requests if request[0] in ("create", "swap")], after


def summary(store: Store) -> dict[str, Any]:
    """What the verb was for, without what only names who asked and in which order."""
    seen: dict[str, Any] = {"verdict": kept(store, DATASET), "run records": sorted(store.list("runs/"))}
    seen["attestations"] = len(list(store.list("attestations/")))
    for dataset in (DATASET, "data"):
        view = find_gate(store, dataset)
        if view is not None:
            body = view.body
            seen[dataset] = {
                "sequence": body.sequence,
                "aliases": {name: (alias.root, alias.generation) for name, alias in body.aliases.items()},
                "candidates": {_content(store, root): candidate.state for root, candidate in body.candidates.items()},
                "fences": (body.tombstones, body.benchmarks),
                "runs": {name: (run.root, run.permit is None, _head(run)) for name, run in body.runs.items()},
                "publications": sorted(body.publications),
                "policy": body.policy.digest,
                "permits": len(body.permits),
            }
    return seen


def _content(store: Store, root: str) -> str:
    """A root names versions, which differ with the order of writes; what it says beside them does not.

    Of an encrypted one, whose bytes are other ones each time, it is what it says of the records.
    """
    stored = store.read(object_key(root), max_bytes=1 << 20)
    if stored is None:
        return root
    if json.decode(stored.data, Release).encryption is not None:
        return repr(re.findall(rb'"(?:logicalDigest|memberSetDigest|orderedMemberTupleRoot)":"[^"]*"', stored.data))
    return re.sub(rb'"objectVersion":"[^"]*"', b"", stored.data).hex()


def _head(run: Any) -> tuple[int, int] | None:
    return None if run.head is None else (run.head.generation, run.head.step)


@pytest.mark.parametrize("verb", VERBS)
def test_a_write_that_is_stopped_is_finished_by_a_plain_rerun(verb: str, tmp_path: Path) -> None:
    before, writes, after = writes_of(verb, tmp_path)
    _, act = VERBS[verb]
    wanted = summary(after)
    for at, (operation, key) in enumerate(writes):
        skip = [one for one, _ in writes[:at]].count(operation)
        for fault in (*BEFORE, *AFTER):
            world = World(tmp_path / f"{at}-{fault.name}")
            world.folder.mkdir()
            store = copy_of(before)
            recording = RecordingStore(store)
            faulty = FaultyStore(recording, [Rule(operation=operation, fault=fault, skip=skip)])
            stopped(verb, fault, lambda world=world, faulty=faulty: act(faulty, world))
            assert len(faulty.fired) == 1
            assert not [request for request in recording.requests if request[0] == "delete"]
            act(store, world)
            assert matches(verb, summary(store), wanted), (operation, key, fault)


def stopped(verb: str, fault: Fault, act: Callable[[], Any]) -> None:
    """The verb says that it does not know, or that the store does not answer."""
    try:
        act()
    except OutcomeUnknownError:
        assert fault in (Fault.UNKNOWN_BEFORE, Fault.UNKNOWN_AFTER)
    except UnavailableError:
        assert fault in (Fault.FAIL_BEFORE, Fault.FAIL_AFTER)
    except RunFailedError:
        assert verb == "checkpoint"
    except ShardrelError as err:
        raise AssertionError(f"{verb}: {fault} became {err.code}") from err
    else:
        assert verb == "probe", f"{verb} made nothing of {fault}"


def matches(verb: str, found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    if verb == "publish --encrypt":
        # Other bytes are another root, and a statement that was made of the first stays.
        found = {**found, "attestations": wanted["attestations"]}
    if verb in ("snapshot and publish", "publish --encrypt"):
        # A publication that had ended is opened and ended once more, which changes nothing but the count.
        counted = found["data"]["sequence"]
        return found == {**wanted, "data": {**wanted["data"], "sequence": counted}} and counted in (3, 5)
    if verb != "checkpoint" or found == wanted:
        return found == wanted
    # The first attempt's record was helped, and the same step was committed once more behind it.
    return bool(found[DATASET]["runs"][RUN][2] == (1, cut(4).step))


def table() -> set[tuple[str, str]]:
    """Rows of the SPEC's table of conditional writes."""
    text = (SOURCE / "schemas" / "SPEC.md").read_text()
    part = text.partition("**Conditional writes.**")[2].partition("\n\n<a")[0]
    return set(re.findall(r"^\| (create|swap) `([^`]+)` \|", part, flags=re.MULTILINE))


def test_the_specification_lists_every_conditional_write_that_a_verb_makes(tmp_path: Path) -> None:
    seen: dict[tuple[str, str], set[str]] = {}
    points = 0
    for verb in VERBS:
        folder = tmp_path / verb
        folder.mkdir()
        for operation, key in writes_of(verb, folder)[1]:
            seen.setdefault((operation, class_of(key)), set()).add(verb)
            points += len(BEFORE) + len(AFTER)
    print(f"{points} points in {len(VERBS)} verbs")
    assert seen.keys() == table()


def test_conditional_writes_are_made_in_these_places_alone() -> None:
    """Whoever adds one adds a row to the SPEC and a verb above."""
    found = set()
    for package in ("shardrel", "publisher", "verifier"):
        for path in (SOURCE / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    receiver = ast.unparse(node.func.value)
                    if node.func.attr in ("create", "swap") and receiver.endswith("store"):
                        found.add(f"{path.relative_to(SOURCE).as_posix()} {node.func.attr}")
    tools = {one for one in found if one.startswith("shardrel/drills/")}
    probing = {
        "shardrel/store/promises.py create",
        "shardrel/store/promises.py swap",
        "shardrel/store/racer.py create",
        "shardrel/store/racer.py swap",
        "shardrel/store/racers.py create",
        "shardrel/store/racers.py swap",
    }
    assert found - tools - probing == {
        "publisher/encryption.py create",
        "shardrel/store/objects.py create",
        "shardrel/store/verdicts.py swap",
        "shardrel/gate/attestations.py create",
        "shardrel/gate/operations.py create",
        "shardrel/gate/register.py swap",
        "shardrel/gate/run_records.py create",
        "shardrel/checkpoint/commits.py create",
    }

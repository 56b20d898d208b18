"""Real processes on one gate, killed at random store operations and started again: one gate explains it all."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shardrel.gate.log import LogEntry, read_entries
from shardrel.store.local import LocalStore
from shardrel.store.open import open_store
from shardrel.store.port import Store
from tests.support import gates
from tests.support.histories import Attempt, read_attempts
from tests.support.linearizability import Link, NotLinearizableError, check_chain

if TYPE_CHECKING:
    from tests.support.seaweed import S3Server

ROOT = Path(__file__).resolve().parents[2]
ROOTS = [gates.a_root("one"), gates.a_root("two")]


def prepared(store: Store) -> Store:
    """A gate with two roots that may be admitted, and both aliases on one of them."""
    from shardrel.gate import admit

    gates.new_gate(store)
    for root in ROOTS:
        gates.stage(store, root)
        gates.attest(store, root)
    for alias in ("prod", "dev"):
        for root in ROOTS:
            admit.admit(store, gates.DATASET, root, alias, gates.call())
    return store


def hammer(folder: Path, store: str, *, workers: int, operations: int, chance: float) -> dict[str, Any]:
    """Let them; how often somebody was killed."""
    for role in ("admin", "verifier"):
        (folder / f"{role}.pem").write_bytes(gates.key(role).to_pem())
    config = {
        "store": store, "folder": str(folder), "workers": workers, "operations": operations, "chance": chance,
        "seed": 1, "roots": ROOTS,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "tests.support.gate_hammer", str(folder / "config.json")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert not result["failed"], done.stderr
    return result


def attempts_in(folder: Path) -> list[Attempt]:
    return [attempt for path in sorted(folder.glob("*.history")) for attempt in read_attempts(path)]


def link_of(entry: LogEntry) -> Link:
    """What whoever asked for this transition is to be told."""
    answers: dict[str, Any] = {
        "advance-fence": getattr(entry.request, "last", None),
        "start-run": entry.effects.opened_permit,
        "end-run": entry.effects.root,
    }
    answer = answers.get(entry.kind, entry.effects.generation)
    return Link(sequence=entry.sequence, operation=entry.operation_id, answer=answer)


def check(store: Store, folder: Path, kills: int, capsys: pytest.CaptureFixture[str]) -> list[Attempt]:
    attempts, chain = attempts_in(folder), [link_of(entry) for entry in read_entries(store, gates.DATASET)]
    explained = check_chain(attempts, chain)
    # A fence has no request of its own where an advance by others made it needless; here one process advances.
    refused = len({attempt.operation for attempt in attempts if attempt.outcome == "refused"})
    with capsys.disabled():
        print(f"\n  {len(attempts)} calls, {explained} effects and reads, {refused} refusals, {kills} kills: explained")
    return attempts


def test_killed_processes_on_a_folder_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = prepared(LocalStore(tmp_path / "store"))
    kills = hammer(tmp_path, str(tmp_path / "store"), workers=4, operations=60, chance=0.01)["kills"]
    attempts = check(store, tmp_path, kills, capsys)
    assert kills > 3
    assert len({attempt.operation for attempt in attempts}) == 4 * 60


@pytest.mark.slow
def test_thousands_of_operations_on_a_folder_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = prepared(LocalStore(tmp_path / "store"))
    kills = hammer(tmp_path, str(tmp_path / "store"), workers=6, operations=500, chance=0.01)["kills"]
    attempts = check(store, tmp_path, kills, capsys)
    assert kills > 100
    assert len({attempt.operation for attempt in attempts}) == 6 * 500


@pytest.mark.slow
@pytest.mark.parametrize("bucket", ["plain", "versioned"])
def test_killed_processes_on_an_s3_server_are_explained(
    tmp_path: Path, seaweed: "S3Server", bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"s3://{getattr(seaweed, bucket)}/hammer-{uuid.uuid4().hex[:12]}"
    store = prepared(open_store(url))
    kills = hammer(tmp_path, url, workers=8, operations=40, chance=0.004)["kills"]
    attempts = check(store, tmp_path, kills, capsys)
    assert kills > 3
    assert len({attempt.operation for attempt in attempts}) == 8 * 40


def test_a_history_that_was_tampered_with_is_not(tmp_path: Path) -> None:
    """The same check on real histories can fail: an acknowledgement that was never given, a read of old times."""
    store = prepared(LocalStore(tmp_path / "store"))
    hammer(tmp_path, str(tmp_path / "store"), workers=2, operations=10, chance=0)
    chain = [link_of(entry) for entry in read_entries(store, gates.DATASET)]
    attempts = attempts_in(tmp_path)
    check_chain(attempts, chain)
    late = max(attempt.called for attempt in attempts)
    stale = Attempt(
        client="x", operation="read-x", kind="read", called=late + 1, returned=late + 2, outcome="done", answer=12
    )
    never = Attempt(client="x", operation="x", kind="admit", called=0, returned=1, outcome="done", answer=1)
    for lie in (stale, never):
        with pytest.raises(NotLinearizableError):
            check_chain([*attempts, lie], chain)
    with pytest.raises(NotLinearizableError):
        check_chain(attempts, chain[:-3])

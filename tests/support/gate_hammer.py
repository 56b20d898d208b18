"""Processes that hammer one gate while they are killed; what each was told is written down.

    python -m tests.support.gate_hammer CONFIG

CONFIG is a JSON file: ``store`` (a folder or s3://…), ``folder`` (for histories and keys), ``workers``,
``operations`` of each, ``chance`` that a process kills itself before or after any store operation, ``seed``.
The driver forks the workers and forks a killed one again, which goes on with the operation whose outcome it
does not know, as a person would run the same command again.
"""

import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from shardrel.errors import OutcomeUnknownError, ShardrelError, UnavailableError
from shardrel.gate import admit, fence, rollback, runs
from shardrel.gate.attestations import attach
from shardrel.gate.call import Call
from shardrel.gate.view import read_gate
from shardrel.records.report import REPORT_PREDICATE, STATEMENT_PAYLOAD
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.open import open_store
from shardrel.store.port import Store
from shardrel.trust.envelope import seal
from shardrel.trust.keys import SigningKey, from_pem
from shardrel.trust.statement import statement
from tests.support.gates import DATASET, NOW, a_report
from tests.support.histories import Outcome, Recorder, last_open, read_attempts
from tests.support.runs import a_deletion

T = TypeVar("T")

Config = dict[str, Any]
Verb = Callable[[], Any]
_EVERY_ADVANCE = 20


class KillingStore(ForwardingStore):
    """Passes everything on; before or after any operation the process may be killed."""

    def __init__(self, inner: Store, seed: str) -> None:
        super().__init__(inner)
        self._random = random.Random(seed)
        self.chance = 0.0

    def around(self, operation: str, key: str, request: Callable[[], T]) -> T:
        self._perhaps_die()
        outcome = request()
        self._perhaps_die()
        return outcome

    def _perhaps_die(self) -> None:
        if self._random.random() < self.chance / 2:
            os.kill(os.getpid(), signal.SIGKILL)


class Worker:
    """One client: a fixed list of operations, each named, and made again until its outcome is known."""

    def __init__(self, config: Config, name: str, life: int) -> None:
        self._folder = Path(config["folder"])
        self._count: int = config["operations"]
        self._roots: list[str] = config["roots"]
        self._name = name
        self._first = name == "w0"
        self._keys = {role: _key(self._folder, role) for role in ("admin", "verifier")}
        self._history = self._folder / f"{name}.history"
        self._chance: float = config["chance"]
        self._store = KillingStore(open_store(config["store"]), f"{config['seed']} {name} {life}")

    def work(self) -> None:
        """Everything that is still to be done."""
        attempts = read_attempts(self._history)
        finished = {attempt.operation for attempt in attempts}
        unknown = last_open(attempts)
        recorder = Recorder(self._history, self._name)
        for number in range(self._count):
            operation = f"{self._name}-{number}"
            if operation in finished and operation != unknown:
                continue
            # A retry walks back over what others did meanwhile. Whoever is killed as often on the way as
            # before, while the others go on, has ever more to walk and never arrives.
            before = sum(attempt.operation == operation for attempt in attempts)
            self._store.chance = self._chance / (1 + before)
            kind, verb = self._operation(number, operation)
            while recorder.record(operation, kind, lambda verb=verb: self._told(verb)) == "unknown":  # type: ignore[misc]
                pass

    def _told(self, verb: Verb) -> tuple[Outcome, Any]:
        try:
            return "done", verb()
        except (OutcomeUnknownError, UnavailableError):
            return "unknown", None
        except ShardrelError as err:
            return "refused", err.code.value

    def _operation(self, number: int, operation: str) -> tuple[str, Verb]:
        """The same operation for the same number, whatever the state."""
        call = Call(signers=[self._keys["admin"]], recorded_at=NOW, operation_id=operation, pending=None)
        if self._first and number % _EVERY_ADVANCE == _EVERY_ADVANCE // 2:
            entry = a_deletion(1 + number // _EVERY_ADVANCE)
            return "fence", lambda: self._advanced(entry, call)
        pick = random.Random(operation)
        root, alias = pick.choice(self._roots), pick.choice(["prod", "dev"])
        run = f"{self._name}-run-{number // 5}"
        match number % 5:
            case 0:
                return "start", lambda: _permit_of(runs.start(self._store, DATASET, alias, call, run_id=run).record)
            case 1:
                return "admit", lambda: _moved(admit.admit(self._store, DATASET, root, alias, call))
            case 2:
                return "rollback", lambda: _moved(rollback.rollback(self._store, DATASET, root, alias, call))
            case 3:
                return "read", lambda: read_gate(self._store, DATASET).body.sequence
            case _:
                return "finish", lambda: runs.finish(self._store, DATASET, run, call).root

    def _advanced(self, entry: Any, call: Call) -> int:
        """An advance, and then what keeps the roots usable. The answer is the advance's."""
        done = fence.advance(self._store, DATASET, "tombstones", [entry], call)
        body = read_gate(self._store, DATASET).body
        for root in self._roots:
            report = statement(root, REPORT_PREDICATE, a_report(body, root), "root")
            attach(self._store, root, seal(report, STATEMENT_PAYLOAD, [self._keys["verifier"]]))
        return done.watermark


def _moved(moved: admit.Moved) -> int:
    return moved.generation


def _permit_of(record: Any) -> str:
    permit: str = record.permit
    return permit


def _key(folder: Path, role: str) -> SigningKey:
    return from_pem(role, (folder / f"{role}.pem").read_bytes())


def _life(config: Config, name: str, life: int) -> NoReturn:
    status = 1
    try:
        Worker(config, name, life).work()
        status = 0
    except BaseException:  # noqa: BLE001 (the end of the process; its parent looks at the status)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Fork the workers, and again whom was killed; print how often that was."""
    config: Config = json.loads(Path(sys.argv[1]).read_text())
    if config["store"].startswith("s3://"):
        import shardrel.store.s3  # noqa: F401 (loaded once, used by the children alone)
    lives: dict[int, tuple[str, int]] = {}

    def begin(name: str, life: int) -> None:
        child = os.fork()
        if child == 0:
            _life(config, name, life)
        lives[child] = (name, life)

    for number in range(config["workers"]):
        begin(f"w{number}", 0)
    kills, failed = 0, []
    while lives:
        child, status = os.wait()
        name, life = lives.pop(child)
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGKILL:
            kills += 1
            begin(name, life + 1)
        elif code:
            failed.append(name)
    print(json.dumps({"kills": kills, "failed": failed}))


if __name__ == "__main__":
    main()

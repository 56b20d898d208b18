"""One of several processes on one gate: admits, or swaps a number, until its time is over.

python -m benchmarks.gate_worker PLAN NUMBER; the moment to begin comes as a line.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.release import DATASET
from shardrel.clock import now_utc
from shardrel.gate.admit import admit
from shardrel.gate.call import Call
from shardrel.store.layout import operation_key
from shardrel.store.open import open_store
from shardrel.store.port import Store, Written
from shardrel.trust import keyring

_NUMBER = operation_key(DATASET, "a-number-of-the-benchmark")


def main() -> None:
    """Work, and say how much was done, until when, and with how much CPU time."""
    plan: dict[str, Any] = json.loads(sys.argv[1])
    store = open_store(plan["url"])
    store.read(_NUMBER, max_bytes=100)
    once = _admission(plan, store, sys.argv[2]) if plan["work"] == "admit" else lambda: _increment(store)
    print("ready", flush=True)
    start = float(sys.stdin.readline())
    time.sleep(max(0.0, start - time.time()))
    before = _cpu()
    done = 0
    while time.time() < start + plan["seconds"]:
        once()
        done += 1
    print(json.dumps({"done": done, "end": time.time(), "cpu": _cpu() - before}))


def _admission(plan: dict[str, Any], store: Store, number: str) -> Callable[[], object]:
    signer = keyring.load(Path(plan["keys"]), "admin")

    def once() -> None:
        call = Call(signers=[signer], recorded_at=now_utc(), operation_id=None, pending=None)
        admit(store, DATASET, plan["root"], f"alias-{number}", call)

    return once


def _increment(store: Store) -> None:
    """Read a number and swap the next one in, until that succeeds; no pause, no reading back of anything else."""
    while True:
        stored = store.read(_NUMBER, max_bytes=100)
        value = 0 if stored is None else int(stored.data)
        if isinstance(store.swap(_NUMBER, b"%d" % (value + 1), None if stored is None else stored.token), Written):
            return


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()

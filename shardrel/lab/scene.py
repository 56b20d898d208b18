"""What a drill begins with: one release and one run of it. Source: schemas/SPEC.md#crash-lab."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from shardrel.gate import admit, approve, runs
from shardrel.gate.call import Call
from shardrel.gate.init import init
from shardrel.gate.view import read_gate
from shardrel.lab.programs import Programs
from shardrel.store.port import Store
from shardrel.trust import keyring
from shardrel.trust.policy import default_policy

DATASET, RUN, ALIAS = "fashion-mnist", "crash-lab", "prod"


def prepare(store: Store, keys: Path, source: Path, table: Any, programs: Programs, now: Callable[[], str]) -> str:
    """Release the table, admit it, and start the run that the drill trains; the root.

    Effects: a gate with keys of its own, a release, a run; the source file.
    """
    public = keyring.ensure(keys)
    held = {name: keyring.load(keys, name) for name in public}

    def call(name: str) -> Call:
        return Call(signers=[held[name]], recorded_at=now(), operation_id=None, pending=None)

    with pa.ipc.new_file(str(source), table.schema) as writer:
        writer.write_table(table)
    init(store, DATASET, default_policy(public), call(keyring.ADMIN))
    root = programs.release(store, DATASET, [str(source)], held[keyring.PUBLISHER])
    programs.verify(store, root, read_gate(store, DATASET), held[keyring.VERIFIER])
    approve.approve(store, read_gate(store, DATASET), root, held[keyring.APPROVER], now())
    admit.admit(store, DATASET, root, ALIAS, call(keyring.ADMIN))
    runs.start(store, DATASET, ALIAS, call(keyring.ADMIN), run_id=RUN)
    return root

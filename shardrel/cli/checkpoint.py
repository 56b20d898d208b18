"""``shardrel checkpoint``: what a run has committed, and whether it could be restored."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardrel.cli.access import the_store
from shardrel.cli.arguments import RunId
from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings
from shardrel.cli.signing import the_gate
from shardrel.errors import ErrorCode, NotFoundError, RefusedError, ShardrelError

if TYPE_CHECKING:
    from shardrel.checkpoint.preflight import Installed
    from shardrel.store.port import Store

_Generation = Annotated[
    int | None, typer.Option(min=0, metavar="G", help="Which checkpoint; without one: the newest admitted.")
]


def list_checkpoints(settings: Settings, run: RunId) -> Result:
    """List the commit records of a run."""
    store = the_store(settings)
    head = _head(settings, store, run)
    rows = [_row(installed, head) for installed in _commits(store, run)]
    columns = ["generation", "step", "worldSize", "state"]
    return Result(
        data={"run": run, "checkpoints": rows},
        headline=f"{len(rows)} checkpoints of run {run}",
        tables=[Table(columns=columns, rows=[[row[name] for name in columns] for row in rows])],
    )


def show(settings: Settings, run: RunId, generation: _Generation = None) -> Result:
    """Show one commit record."""
    import msgspec

    store = the_store(settings)
    head = _head(settings, store, run)
    installed = _commit(store, run, generation, head)
    row = _row(installed, head)
    return Result(
        data={**row, "commit": installed.digest, "record": msgspec.to_builtins(installed.record)},
        headline=f"Checkpoint {installed.record.generation} of run {run}",
        facts=[(name, value) for name, value in row.items()],
    )


def preflight(settings: Settings, run: RunId, generation: _Generation = None) -> Result:
    """Check everything that a restore would: records, cut, tiling, and every byte of every object."""
    from shardrel.checkpoint.manifest import Expected, judge
    from shardrel.checkpoint.preflight import object_problems, read_manifest

    store = the_store(settings)
    installed = _commit(store, run, generation, _head(settings, store, run))
    expected = Expected(run_id=run, root=installed.record.root)
    failures: list[dict[str, Any]]
    try:
        manifest = read_manifest(store, installed.record)
        found = judge(manifest, installed.record, expected) or object_problems(store, manifest)
        failures = [{"code": problem.code.value, "subject": problem.subject} for problem in found]
    except RefusedError as err:
        failures = [_failure(err)]
    verdict = "FAILED" if failures else "PASSED"
    return Result(
        data={"run": run, "generation": installed.record.generation, "verdict": verdict, "failures": failures},
        headline=f"Checkpoint {installed.record.generation} of run {run}: {verdict}",
        tables=[Table(columns=["code", "subject"], rows=[(f["code"], f["subject"]) for f in failures])]
        * bool(failures),
        status=1 if failures else 0,
    )


def _failure(err: ShardrelError) -> dict[str, Any]:
    return {"code": err.code.value, "subject": err.context.get("subject")}


def _head(settings: Settings, store: "Store", run: str) -> int | None:
    """Generation of the newest admitted checkpoint, as the gate or, for a run that has ended, its log tells."""
    from shardrel.gate.log import read_entries
    from shardrel.gate.run_records import record_of
    from shardrel.records.transition import AdmitCheckpoint

    view = the_gate(settings, store)
    record_of(store, view, run)
    there = view.body.runs.get(run)
    if there is not None:
        return None if there.head is None else there.head.generation
    requests = [entry.request for entry in read_entries(store, settings.dataset)]
    admitted = [r.generation for r in requests if isinstance(r, AdmitCheckpoint) and r.run == run]
    return max(admitted, default=None)


def _commits(store: "Store", run: str) -> "list[Installed]":
    """Commit records from generation 0 on; a generation follows the one before it, so none is skipped."""
    from shardrel.checkpoint.preflight import read_commit

    found: list[Installed] = []
    while (installed := read_commit(store, run, len(found))) is not None:
        found.append(installed)
    return found


def _commit(store: "Store", run: str, generation: int | None, head: int | None) -> "Installed":
    from shardrel.checkpoint.preflight import read_commit

    wanted = head if generation is None else generation
    installed = None if wanted is None else read_commit(store, run, wanted)
    if installed is None:
        raise NotFoundError(ErrorCode.CHECKPOINT_NONE, "the run has no such checkpoint", run=run, generation=wanted)
    return installed


def _row(installed: "Installed", head: int | None) -> dict[str, Any]:
    record = installed.record
    admitted = head is not None and record.generation <= head
    return {
        "generation": record.generation,
        "step": record.cut.step,
        "worldSize": record.world_size,
        "state": "ADMITTED" if admitted else "INSTALLED",
    }

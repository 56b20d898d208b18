"""``shardrel checkpoint``: what a run has committed, and whether it could be restored."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardrel.cli.access import the_store
from shardrel.cli.arguments import Newest, RunId
from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings
from shardrel.cli.signing import the_gate
from shardrel.cli.words import counted, last, shown_of
from shardrel.errors import ErrorCode, FormatError, IntegrityError, NotFoundError, RefusedError, ShardrelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardrel.checkpoint.preflight import Installed
    from shardrel.records.checkpoint import CheckpointManifest
    from shardrel.records.run import RunRecord
    from shardrel.records.transition import AdmitCheckpoint
    from shardrel.store.port import Store

    _Admitted = Mapping[int, AdmitCheckpoint]

_COLUMNS = ["generation", "step", "worldSize", "state"]
Generation = Annotated[
    int | None, typer.Option(min=0, metavar="G", help="Which checkpoint; without one: the newest admitted.")
]


def list_checkpoints(settings: Settings, run: RunId, limit: Newest = None) -> Result:
    """List the checkpoints of a run: what the gate admitted, and what is installed behind that."""
    store = the_store(settings)
    _, admitted = told(settings, store, run)
    behind = _behind(store, run, admitted)
    collected = _may_be_collected(settings, store, run)
    shown = last(sorted(admitted.items()), None if limit is None else max(0, limit - len(behind)))
    rows = [*(_admitted_row(store, made, collected=collected) for _, made in shown), *last(behind, limit)]
    total = len(admitted) + len(behind)
    return Result(
        data={"run": run, "checkpoints": rows, "total": total},
        headline=f"{counted(total, 'checkpoint')} of run {run}{shown_of(len(rows), total)}",
        tables=[Table(columns=_COLUMNS, rows=[[_shown(row[name]) for name in _COLUMNS] for row in rows])],
    )


def _may_be_collected(settings: Settings, store: "Store", run: str) -> bool:
    """Whether gc may have taken checkpoints of the run: an ended one keeps the last at most."""
    body = the_gate(settings, store).body
    return run not in body.runs and body.retention.boundary > 0


def show(settings: Settings, run: RunId, generation: Generation = None) -> Result:
    """Show one checkpoint: its commit record, and what its manifest lists."""
    import msgspec

    from shardrel.checkpoint.preflight import read_manifest

    store = the_store(settings)
    _, admitted = told(settings, store, run)
    installed = commit_of(store, run, generation, admitted)
    row = _row(installed, "ADMITTED" if installed.record.generation in admitted else "INSTALLED")
    held = _held(read_manifest(store, installed.record))
    return Result(
        data={
            **row,
            **held,
            "status": row["state"],
            "commit": installed.digest,
            "record": msgspec.to_builtins(installed.record),
        },
        headline=f"Checkpoint {installed.record.generation} of run {run} is {row['state']}",
        facts=[(name, _shown(value)) for name, value in {**row, **held}.items()],
    )


def _held(manifest: "CheckpointManifest") -> dict[str, Any]:
    regions = [region for entry in manifest.tensors for region in entry.regions]
    return {
        "tensors": len(manifest.tensors),
        "regions": len(regions),
        "objects": len({region.object.digest for region in regions}),
        "bytes": sum(region.length for region in regions),
        "state": sorted(manifest.state),
        "copies": sum(len(region.replicas) > 1 for region in regions),
        "owners": dict(manifest.owners or {}),
    }


def _shown(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, dict):
        return ", ".join(f"{path}: rank {rank}" for path, rank in sorted(value.items())) or "none declared"
    return f"{value:,}" if isinstance(value, int) else ", ".join(value)


def preflight(settings: Settings, run: RunId, generation: Generation = None) -> Result:
    """Check everything that a restore would: records, cut, tiling, and every byte of every object."""
    store = the_store(settings)
    record, admitted = told(settings, store, run)
    wanted = _wanted(run, generation, admitted)
    try:
        failures = _failures(store, commit_of(store, run, wanted, admitted), record)
    except (RefusedError, IntegrityError) as err:
        failures = [_failure(err)]
    verdict = "FAILED" if failures else "PASSED"
    return Result(
        data={"run": run, "generation": wanted, "verdict": verdict, "failures": failures},
        headline=f"Checkpoint {wanted} of run {run}: {verdict}",
        tables=[Table(columns=["code", "subject"], rows=[(f["code"], f["subject"]) for f in failures])]
        * bool(failures),
        status=1 if failures else 0,
    )


def _failures(store: "Store", installed: "Installed", record: "RunRecord") -> list[dict[str, Any]]:
    from shardrel.checkpoint.manifest import Expected, judge
    from shardrel.checkpoint.objects import ObjectReader
    from shardrel.checkpoint.preflight import object_problems, read_manifest

    manifest = read_manifest(store, installed.record)
    expected = Expected(run_id=record.run_id, root=record.root)
    found = judge(manifest, installed.record, expected) or object_problems(ObjectReader(store), manifest)
    return [{"code": problem.code.value, "subject": problem.subject} for problem in found]


def _failure(err: ShardrelError) -> dict[str, Any]:
    return {"code": err.code.value, "subject": err.context.get("subject")}


def told(settings: Settings, store: "Store", run: str) -> "tuple[RunRecord, _Admitted]":
    """The run's record, and what the gate admitted of it: what lies in the store is held against that."""
    from shardrel.checkpoint.recovery import admitted_in_history
    from shardrel.gate.run_records import record_of

    view = the_gate(settings, store)
    record = record_of(store, view, run)
    there = view.body.runs.get(run)
    if there is not None and there.head is None:
        return record, {}
    return record, admitted_in_history(store, settings.dataset, run)


def _wanted(run: str, generation: int | None, admitted: "_Admitted") -> int:
    wanted = max(admitted, default=None) if generation is None else generation
    if wanted is None:
        raise _none(run, None)
    return wanted


def commit_of(store: "Store", run: str, generation: int | None, admitted: "_Admitted") -> "Installed":
    """The commit record of a generation: the one that the gate admitted, or one that waits for that."""
    from shardrel.checkpoint.preflight import read_commit
    from shardrel.checkpoint.recovery import read_admitted

    wanted = _wanted(run, generation, admitted)
    if wanted in admitted:
        return read_admitted(store, run, wanted, admitted[wanted].commit)
    installed = read_commit(store, run, wanted)
    if installed is None:
        raise _none(run, wanted)
    if (installed.record.run_id, installed.record.generation) != (run, wanted):
        raise RefusedError(
            ErrorCode.CHECKPOINT_IDENTITY, "a commit record is one of another generation or run", generation=wanted
        )
    return installed


def _admitted_row(store: "Store", made: "AdmitCheckpoint", *, collected: bool) -> dict[str, Any]:
    from shardrel.checkpoint.recovery import read_admitted

    try:
        installed = read_admitted(store, made.run, made.generation, made.commit)
        return _row(installed, "COLLECTED" if collected and _is_gone(store, installed) else "ADMITTED")
    except (RefusedError, IntegrityError, FormatError) as err:
        state = "LOST" if err.code == ErrorCode.CHECKPOINT_MISSING else "DAMAGED"
        return {"generation": made.generation, "step": made.step, "worldSize": None, "state": state}


def _is_gone(store: "Store", installed: "Installed") -> bool:
    """A look at whether the manifest, without which nothing is restored, is there."""
    from shardrel.store.layout import object_key

    return store.look(object_key(installed.record.manifest.digest)) is None


def _behind(store: "Store", run: str, admitted: "_Admitted") -> list[dict[str, Any]]:
    """The record behind the newest admitted one, which waits for its admission, is void, or is not ours."""
    following = max(admitted, default=-1) + 1
    try:
        return [_row(commit_of(store, run, following, admitted), "INSTALLED")]
    except NotFoundError:
        return []
    except (RefusedError, IntegrityError, FormatError):
        return [{"generation": following, "step": None, "worldSize": None, "state": "DAMAGED"}]


def _none(run: str, generation: int | None) -> NotFoundError:
    return NotFoundError(ErrorCode.CHECKPOINT_NONE, "the run has no such checkpoint", run=run, generation=generation)


def _row(installed: "Installed", state: str) -> dict[str, Any]:
    record = installed.record
    return {
        "generation": record.generation,
        "step": record.cut.step,
        "worldSize": record.world_size,
        "state": state,
    }

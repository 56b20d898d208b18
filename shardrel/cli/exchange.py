"""``shardrel checkpoint export`` and ``import``: checkpoints for and from other programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shardrel.cli.access import the_store, the_store_to_write
from shardrel.cli.arguments import RunId
from shardrel.cli.checkpoint import Generation, commit_of, told
from shardrel.cli.output import Result
from shardrel.cli.settings import Settings
from shardrel.cli.signing import the_gate, the_signer
from shardrel.errors import RefusedError

if TYPE_CHECKING:
    from shardrel.checkpoint.objects import ObjectReader
    from shardrel.records.checkpoint import CheckpointManifest


def export_checkpoint(
    settings: Settings,
    run: RunId,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder to put the files into.")],
    generation: Generation = None,
    form: Annotated[
        Literal["safetensors", "dcp"], typer.Option("--format", help="dcp: torch.distributed.checkpoint's own files.")
    ] = "safetensors",
) -> Result:
    """Write a checkpoint for other programs, every byte of it checked."""
    from shardrel.checkpoint.manifest import Expected, judge
    from shardrel.checkpoint.objects import ObjectReader
    from shardrel.checkpoint.preflight import read_manifest

    store = the_store(settings)
    record, admitted = told(settings, store, run)
    installed = commit_of(store, run, generation, admitted)
    manifest = read_manifest(store, installed.record)
    for problem in judge(manifest, installed.record, Expected(run_id=record.run_id, root=record.root)):
        raise RefusedError(problem.code, "a checkpoint is not sound, so it is not exported", subject=problem.subject)
    written = _exported(ObjectReader(store), manifest, to, form)
    found = installed.record.generation
    return Result(
        data={"run": run, "generation": found, "format": form, "path": str(written), "tensors": len(manifest.tensors)},
        headline=f"Checkpoint {found} of run {run} is in {written}",
        facts=[("tensors", len(manifest.tensors)), ("format", form)],
    )


def import_checkpoint(
    settings: Settings,
    run: RunId,
    source: Annotated[Path, typer.Option("--from", metavar="FILE", help="A safetensors file.")],
) -> Result:
    """Commit the tensors of a safetensors file as the checkpoint that a run begins from."""
    from shardrel.checkpoint.import_safetensors import import_safetensors
    from shardrel.data.ledger import genesis
    from shardrel.gate.run_records import record_of

    store = the_store_to_write(settings)
    view = the_gate(settings, store)
    record = record_of(store, view, run)
    saved = import_safetensors(
        store,
        source,
        dataset=settings.dataset,
        run=run,
        cut=genesis(record.root),
        signer=the_signer(settings, view.policy, "runner"),
    )
    return Result(
        data={"run": run, "generation": saved.generation, "step": saved.step, "commit": saved.commit},
        headline=f"{source} is checkpoint {saved.generation} of run {run}",
        facts=[("step", saved.step), ("commit", saved.commit)],
    )


def _exported(objects: "ObjectReader", manifest: "CheckpointManifest", to: Path, form: str) -> Path:
    if form == "dcp":
        from shardrel.checkpoint.export_dcp import export_dcp

        return export_dcp(objects, manifest, to)
    from shardrel.checkpoint.export import export_safetensors

    return export_safetensors(objects, manifest, to)
